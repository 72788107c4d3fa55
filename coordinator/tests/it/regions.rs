//! From region to region over the real binary: two coordinators with a store each.

use crate::process::{Daemon, Said};
use serde_json::Value as Json;
use std::path::Path;

fn regions(preprod: &Daemon, eu: &Daemon) -> String {
    let region = |daemon: &Daemon| {
        format!(
            "{{coordinator: '{}', token_file: '{}'}}",
            daemon.address("advertise"),
            daemon.address("token_file")
        )
    };
    format!("preprod: {}\neu-1: {}\n", region(preprod), region(eu))
}

fn promote(daemon: &Daemon, file: &Path, more: &[&str]) -> Said {
    let mut args = vec!["release", "promote", "--from", "preprod", "--to", "eu-1", "--regions"];
    args.push(file.to_str().unwrap());
    args.extend(more);
    daemon.ask(&args)
}

#[test]
fn promoted_release_is_decided_by_target_region() {
    let preprod = Daemon::embedded(|_, _| {});
    let eu = Daemon::embedded(|_, _| {});
    let file = preprod.file("regions.yaml", &regions(&preprod, &eu));
    let settings = eu.file("stream.yaml", "approval: required\n");
    let set = eu.ask(&["release", "stream", "compute", "--set", settings.to_str().unwrap()]);
    assert_eq!(set.code, 0, "{set:?}");
    let nothing = promote(&preprod, &file, &[]);
    assert_ne!(nothing.code, 0, "there is nothing to promote: {nothing:?}");

    let manifest = "pg_settings: {common: {max_wal_size: \"1024\"}}\n";
    let manifest = preprod.file("manifest.yaml", manifest);
    let extensions = preprod.file("extensions.json", "{\"postgis\": {\"17\": \"3.5.0\"}}");
    let (manifest, extensions) = (manifest.display(), extensions.display());
    for version in ["7", "8"] {
        let create = format!(
            "release create --version {version} --tag release-{version} --branch b --manifest {manifest} \
             --mix-in extensions={extensions}"
        );
        assert_eq!(preprod.ask(&create.split(' ').collect::<Vec<_>>()).code, 0);
    }
    let promoted = promote(&preprod, &file, &[]);
    let reported = "release-8, revision 2 of preprod: in eu-1, revision 1 of compute was created (pending";
    assert_eq!((promoted.code, promoted.out.contains(reported)), (0, true), "{promoted:?}");
    let approved = eu.ask(&["release", "approve", "1"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    eu.until("it is deployed there", &["release", "show"], |said| said.out.contains("deployed"));
    let shown = |daemon: &Daemon| -> Json {
        serde_json::from_str(&daemon.ask(&["--json", "release", "show"]).out).unwrap()
    };
    let (there, here) = (shown(&eu), shown(&preprod));
    for part in ["version", "tag", "manifest", "branch", "requires"] {
        assert_eq!(there[part], here[part], "{part}");
    }
    assert_eq!(there["manifest"]["extensions"]["postgis"]["17"], "3.5.0", "what was mixed in");

    let again = promote(&preprod, &file, &["--json"]);
    let again: Json = serde_json::from_str(&again.out).unwrap();
    assert_eq!(
        (&again["from"]["region"], &again["to"]["release"]["revision"]),
        (&"preprod".into(), &1.into())
    );
    let old = promote(&preprod, &file, &["1"]);
    assert_eq!((old.code, old.err.contains("is superseded in preprod")), (3, true), "{old:?}");
    let list = eu.ask(&["--json", "release", "list"]);
    assert_eq!(list.out.lines().count(), 1, "nothing more was created: {list:?}");
}

#[test]
fn pull_request_release_goes_to_its_own_stream() {
    let (preprod, eu) = (Daemon::embedded(|_, _| {}), Daemon::embedded(|_, _| {}));
    let file = preprod.file("regions.yaml", &regions(&preprod, &eu));
    let by_pull_request = preprod.file("stream.yaml", "grouping: pull-request\n");
    let group = ["release", "stream", "compute", "--set", by_pull_request.to_str().unwrap()];
    assert_eq!(preprod.ask(&group).code, 0);
    let create = ["release", "create", "--version", "7", "--tag", "t7", "--pull-request", "417"];
    assert_eq!(preprod.ask(&create).code, 0);
    let to_line = ["--stream", "compute-pr-417"];
    let refused = promote(&preprod, &file, &to_line);
    assert_eq!((refused.code, refused.err.contains("eu-1 does not group compute")), (3, true), "{refused:?}");
    assert_eq!(eu.ask(&["--json", "release", "stream"]).out, "", "nothing was created there");

    assert_eq!(eu.ask(&group).code, 0);
    let promoted = promote(&preprod, &file, &to_line);
    let reported = "in eu-1, revision 1 of compute-pr-417 was created (deployed)";
    assert_eq!((promoted.code, promoted.out.contains(reported)), (0, true), "{promoted:?}");
    let again = promote(&preprod, &file, &to_line);
    assert_eq!((again.code, again.out.contains("says the same already")), (0, true), "{again:?}");
    let shown = |daemon: &Daemon| -> Json {
        let said = daemon.ask(&["--json", "release", "--stream", "compute-pr-417", "show"]);
        serde_json::from_str(&said.out).unwrap()
    };
    for part in ["version", "tag", "branch", "posted", "status"] {
        assert_eq!(shown(&eu)[part], shown(&preprod)[part], "{part}");
    }
    assert_eq!(shown(&eu)["posted"], serde_json::json!({"to": "compute", "pull_request": "417"}));
}

#[test]
fn a_file_of_regions_that_cannot_be_used_is_refused_in_words() {
    let preprod = Daemon::embedded(|_, _| {});
    let url = preprod.address("advertise");
    let cases = [
        (format!("preprod: {{coordinator: '{url}'}}"), "knows no region eu-1, only preprod"),
        (
            format!("preprod: {{coordinator: '{url}'}}\npreprod: {{coordinator: '{url}'}}"),
            "regions.yaml:2:1: the key `preprod` is there twice",
        ),
        (format!("preprod: {{url: '{url}'}}"), "url"),
        (
            format!("preprod: {{coordinator: '{url}', cert: c}}\neu-1: {{coordinator: '{url}'}}"),
            "cert and key",
        ),
    ];
    for (text, word) in cases {
        let file = preprod.file("regions.yaml", &text);
        let said = promote(&preprod, &file, &[]);
        assert_eq!((said.code, said.err.contains(word)), (2, true), "{text}: {said:?}");
    }
    let said = promote(&preprod, Path::new("no-such-file"), &[]);
    assert_eq!((said.code, said.err.contains("no-such-file")), (2, true), "{said:?}");
    let said = preprod.ask(&["release", "promote"]);
    assert_eq!(said.code, 2, "{said:?}");
}
