//! What makes no sense is refused before anything is touched.

use std::process::Command;

use grenade_tests::world::program;

fn demo(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program::own("tidegate-demo").unwrap()).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn invalid_arguments_are_refused_and_nothing_is_made() {
    let room = tempfile::tempdir().unwrap();
    let dir = room.path().join("demo");
    let at = dir.to_str().unwrap();
    for (bad, word) in [
        (vec!["--brake-at=3"], "--brake-at"),
        (vec!["--break-at=7"], "1 to 6"),
        (vec!["--break-at=none"], "none"),
        (vec!["--real=yes"], "yes"),
        (vec!["now"], "now"),
    ] {
        let (code, said) = demo(&[bad.as_slice(), &["--dir", at]].concat());
        assert_eq!(code, Some(2), "{bad:?}: {said}");
        assert!(said.contains(word), "{bad:?} is not named: {said}");
        assert!(!dir.exists(), "{bad:?} made the directory");
    }
}

#[test]
fn directory_of_another_owner_is_left_alone() {
    let room = tempfile::tempdir().unwrap();
    std::fs::write(room.path().join("thesis"), "years").unwrap();
    let (code, said) = demo(&["--dir", room.path().to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not empty") && said.contains("name a directory"), "{said}");
    assert_eq!(std::fs::read_to_string(room.path().join("thesis")).unwrap(), "years");
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1);
}

#[test]
fn help_says_what_happens_and_how_it_ends() {
    let (code, said) = demo(&["--help"]);
    assert_eq!(code, Some(0));
    for word in ["--real", "--break-at", "--keep", "report.json", "requests.csv", "Exit:", "make demo"] {
        assert!(said.contains(word), "{word} is missing in\n{said}");
    }
}
