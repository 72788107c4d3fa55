//! Whether the program of a hook can be run: checked as the system would, without running it.

use crate::small;
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How much of a script's first line the kernel reads, in bytes.
const FIRST_LINE: u64 = 256;

/// Why the program of a command cannot be run, with its name.
pub(super) fn cannot_begin(argv: &[String]) -> Option<String> {
    let program = argv.first()?;
    cannot_run(program).map(|why| format!("{why}: {program}"))
}

/// Why a program cannot be run; none = it can, or its name is known only with a release.
fn cannot_run(program: &str) -> Option<String> {
    if program.contains('{') {
        return None;
    }
    if program.contains('/') {
        return why_not(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| why_not(&directory.join(program)).is_none());
    (!found).then(|| "is in no directory of PATH".to_owned())
}

fn why_not(path: &Path) -> Option<String> {
    match path.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Some("is not there".to_owned()),
        Err(e) => Some(format!("cannot be looked at ({e})")),
        Ok(found) if !found.is_file() => Some("is not a file".to_owned()),
        Ok(_) => match access(path, Access::EXEC_OK) {
            Err(e) => Some(format!("is not executable ({e})")),
            Ok(()) => interpreter(path).filter(|interpreter| !interpreter.is_file()).map(|interpreter| {
                format!("names an interpreter that is not there ({})", interpreter.display())
            }),
        },
    }
}

/// The interpreter that a script names in its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    small::open(script).ok()?.take(FIRST_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_an_executable_file_can_be_run() {
        let room = tempfile::tempdir().unwrap();
        let script = room.path().join("script");
        let asked = || cannot_run(script.to_str().unwrap());
        assert_eq!(asked().as_deref(), Some("is not there"));
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(asked().is_some_and(|why| why.starts_with("is not executable")));
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(asked(), None);
        assert_eq!(cannot_run(room.path().to_str().unwrap()).as_deref(), Some("is not a file"));
        assert_eq!(cannot_run("sh"), None);
        assert_eq!(cannot_run("no-such-program").as_deref(), Some("is in no directory of PATH"));
        assert_eq!(cannot_run("{release_dir}/start"), None);
    }
}
