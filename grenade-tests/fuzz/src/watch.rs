//! Sees the panics of one call, those of tasks that it runs as well, and keeps them from the terminal.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// How much of what a panic says is kept, in characters.
const SHOWN: usize = 2_000;

static WATCHING: AtomicBool = AtomicBool::new(false);
static SEEN: Mutex<Option<String>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn install() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if WATCHING.load(Ordering::SeqCst) {
                let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
                seen.get_or_insert_with(|| panicked.to_string().chars().take(SHOWN).collect());
            } else {
                before(panicked);
            }
        }));
    });
}

/// Runs `call`; an error is the first panic of any thread meanwhile, with its place. Tests run in processes of their own.
pub(crate) fn panics_of<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install();
    WATCHING.store(true, Ordering::SeqCst);
    let ended = panic::catch_unwind(AssertUnwindSafe(call));
    WATCHING.store(false, Ordering::SeqCst);
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (ended, seen) {
        (Ok(value), None) => Ok(value),
        (_, seen) => Err(seen.unwrap_or_else(|| "it panicked without a word".to_owned())),
    }
}
