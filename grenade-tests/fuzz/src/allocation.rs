//! What a call allocates, counted on the thread that runs it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The most that one measured call may hold at once, in bytes. Beyond it, allocation fails and the process ends, so that
/// a border without a limit does not take the machine with it. The input is then in the file that [`crate::Border`] names.
const CEILING: i64 = 1 << 30;

#[derive(Clone, Copy)]
struct Counts {
    measured: bool,
    live: i64,
    peak: i64,
    total: u64,
}

const NOTHING: Counts = Counts { measured: false, live: 0, peak: 0, total: 0 };

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(NOTHING) };
}

/// What one call allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The most bytes that were held at once, above those held before.
    pub peak: u64,
    /// All bytes that were allocated, those freed again among them: a measure of work that does not depend on the machine.
    pub total: u64,
}

/// Runs `call` and counts what it allocates on this thread. Needs [`Counting`] as the global allocator.
pub fn measure<T>(call: impl FnOnce() -> T) -> (T, Usage) {
    COUNTS.set(Counts { measured: true, ..NOTHING });
    let value = call();
    let counts = COUNTS.replace(NOTHING);
    let peak = u64::try_from(counts.peak).unwrap_or(0);
    (value, Usage { peak, total: counts.total })
}

/// Counts `held` bytes more, or fewer; `new` of them were allocated now; false where that is beyond the ceiling.
fn count(held: i64, new: usize) -> bool {
    let counted = COUNTS.try_with(|cell| {
        let mut counts = cell.get();
        if !counts.measured {
            return true;
        }
        let live = counts.live + held;
        if held > 0 && live > CEILING {
            return false;
        }
        counts.total += new as u64;
        counts.peak = counts.peak.max(live);
        counts.live = live;
        cell.set(counts);
        true
    });
    counted.unwrap_or(true)
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The system's allocator, counted.
pub struct Counting;

#[allow(
    unsafe_code,
    reason = "an allocator is an unsafe trait; each method only counts and calls the system's own"
)]
// SAFETY: each method gives its arguments to `System` as it got them, or answers null, which `GlobalAlloc` allows.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !count(signed(layout.size()), layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !count(signed(layout.size()), layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's own promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-signed(layout.size()), 0);
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // What grows may have to be copied whole: all of it is work, the difference is held.
        if !count(signed(size) - signed(layout.size()), size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}
