//! Chance and wall clock below the standard library. Tables are hashed with random keys, names and jitter are drawn, records
//! bear the time: in a process that simulates, all of that follows from the seed. What is not simulated (another thread, the
//! process that starts the simulations) gets the system's.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// Where the wall clock of every simulation begins: 1 January 2026, in seconds since 1970.
const BEGINS: u64 = 1_767_225_600;

const CLOCK_REALTIME: c_int = 0;

/// 0 = nothing is simulated.
static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THROWS: Cell<u64> = const { Cell::new(0) };
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on, `seed` decides in this process. To be called before anything is drawn in the thread that simulates: a
/// runtime draws when it is made.
pub(crate) fn chance(seed: u64) {
    SEED.store(seed.wrapping_mul(2).wrapping_add(1), Ordering::SeqCst);
    THROWS.set(0);
}

/// From now on, the wall clock of this thread follows its runtime's clock.
pub(crate) fn clock() {
    BEGAN.set(Some(Instant::now()));
}

/// SplitMix64: the n-th number of a seed.
fn number(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Takes the place of the C library's.
///
/// # Safety
/// `buffer` has room for `length` bytes, as for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller gives a buffer of that length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let seed = SEED.load(Ordering::SeqCst);
    if seed == 0 {
        let flags = rustix::rand::GetRandomFlags::empty();
        return rustix::rand::getrandom(bytes, flags).map_or(-1, |n| isize::try_from(n).unwrap_or(-1));
    }
    for piece in bytes.chunks_mut(8) {
        let n = THROWS.get() + 1;
        THROWS.set(n);
        piece.copy_from_slice(&number(seed, n).to_le_bytes()[..piece.len()]);
    }
    isize::try_from(length).unwrap_or(-1)
}

/// The C library's form of a time.
#[repr(C)]
pub(crate) struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

/// Takes the place of the C library's.
///
/// # Safety
/// `into` has room for one time, as for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(clock: c_int, into: *mut Timespec) -> c_int {
    let began = BEGAN.try_with(Cell::get).ok().flatten().filter(|_| clock == CLOCK_REALTIME);
    let time = match began {
        Some(began) => {
            let elapsed = began.elapsed();
            Timespec {
                seconds: c_long::try_from(BEGINS + elapsed.as_secs()).unwrap_or(c_long::MAX),
                nanoseconds: c_long::from(elapsed.subsec_nanos()),
            }
        }
        None => {
            use rustix::time::{ClockId, clock_gettime};
            let which = match clock {
                CLOCK_REALTIME => ClockId::Realtime,
                2 => ClockId::ProcessCPUTime,
                3 => ClockId::ThreadCPUTime,
                5 => ClockId::RealtimeCoarse,
                6 => ClockId::MonotonicCoarse,
                4 => ClockId::MonotonicRaw,
                _ => ClockId::Monotonic,
            };
            let now = clock_gettime(which);
            Timespec { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
        }
    };
    // SAFETY: the caller gives room for it.
    unsafe { into.write(time) };
    0
}
