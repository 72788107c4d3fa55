//! How programs of a simulated node end.

use tidegate_agent::host::Done;

/// One that printed this, and complained so.
pub(super) fn done(success: bool, stdout: &str, stderr: &str) -> Done {
    Done {
        success,
        code: Some(i32::from(!success)),
        ending: format!("exit status: {}", i32::from(!success)),
        stdout: stdout.into(),
        stderr: stderr.into(),
    }
}
