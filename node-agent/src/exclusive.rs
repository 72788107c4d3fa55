//! The exclusive lock of a file that one process at a time may hold.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::time::{Duration, Instant};

/// How long a lock may outlive its holder. What a process had forked as it was killed has its files until it begins its own
/// program.
const LEFT: Duration = Duration::from_secs(2);

/// How often the lock is tried meanwhile: the kernel has no wait for it that ends by itself.
const AGAIN: Duration = Duration::from_millis(20);

/// Locks a file, once what a killed holder had just forked has let it go.
///
/// # Errors
/// `WOULDBLOCK` where another process has held it for two seconds; and what the system says.
pub fn lock(file: &File) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < LEFT => std::thread::sleep(AGAIN),
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_that_a_killed_holder_left_in_a_fork_is_waited_for() {
        let room = tempfile::tempdir().unwrap();
        let open = || File::options().create(true).append(true).open(room.path().join("lock")).unwrap();
        let killed = open();
        lock(&killed).unwrap();
        // As a process that was forked and has not begun its program yet.
        let forked = killed.try_clone().unwrap();
        drop(killed);
        let next = open();
        assert_eq!(flock(&next, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
        let begins = std::thread::spawn(move || {
            std::thread::sleep(10 * AGAIN);
            drop(forked);
        });
        lock(&next).unwrap();
        begins.join().unwrap();
    }
}
