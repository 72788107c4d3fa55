//! Rule 8 in one step of a history: what goes out finds the storage that it needs and writes its need down, and no floor
//! falls below a need. What holds of streams over a whole history is judged in `streams`.

use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ServiceName, ServiceVersion, StreamName, Value};

use super::revision::Written;
use super::rules::{Judge, RECONCILIATION};
use super::seen::{Seen, follows_needs};

/// Judges what a revision wrote of streams and floors.
pub(super) fn judge(judge: &mut Judge<'_>) {
    let revision = judge.revision;
    for Written { key, put, .. } in &revision.writes {
        match (key, put.as_ref().map(|put| &put.value)) {
            (Key::Stream(stream), Some(Value::Stream(body))) => goes_out(judge, stream, &body.body),
            (Key::Window(service), _) => floor_is_enough(judge, service),
            _ => {}
        }
    }
}

/// What begins to be used meets storage that is new enough, and its need is written down with it.
fn goes_out(judge: &mut Judge<'_>, stream: &StreamName, body: &Stream) {
    let former = judge.before.streams.get(stream);
    let out = |of: &Stream| -> Vec<Head> {
        let (deployed, canary) = (of.deployed.as_deref(), of.canary.as_deref());
        deployed.into_iter().chain(canary).cloned().collect()
    };
    let was: Vec<_> =
        former.map(out).unwrap_or_default().into_iter().map(|head| head.release.revision).collect();
    // This commit compares the stream's record: what was written up to its last write was seen.
    let written = judge.before.stream_written.get(stream);
    let planned_on = written.map_or(judge.known, |at| judge.known.max(*at));
    for head in out(body) {
        let release = &head.release;
        for (service, minimum) in &release.requires {
            let need = judge.after.needs.get(service).and_then(|need| need.streams.get(stream));
            judge.holds(8, need.is_some_and(|holder| holder.minimum >= *minimum), || {
                format!("{} of {stream} is out, and its need of {service} is {need:?}", release.tag)
            });
            if !was.contains(&release.revision) {
                let storage = storage(judge.before, service, planned_on);
                let is_enough = storage.is_some_and(|lowest| lowest >= *minimum) || judge.of_former_view;
                judge.holds(8, is_enough, || {
                    format!("{} of {stream} needs {service} at {minimum}, found {storage:?}", release.tag)
                });
            }
        }
    }
}

/// The lowest version of a service that is promised: its floor, or where it is only watched what runs. A floor that an
/// upgrade committed is a promise with an open ceiling too, as that of a service which shares the schema; one that
/// follows what releases need is none. What runs counts as a coordinator may have seen it that knows everything up to this
/// revision.
fn storage(seen: &Seen, service: &ServiceName, known: i64) -> Option<ServiceVersion> {
    let window = seen.windows.get(service).map(|window| &window.body);
    match window.filter(|window| !window.is_open() && !follows_needs(window)) {
        Some(window) => Some(window.floor),
        None => {
            let each: Vec<_> =
                seen.fleet(service).map(|(_, instance)| instance.version_after(known)).collect();
            each.into_iter().min().flatten()
        }
    }
}

/// No floor falls below a need in effect. A need may exist before its release is out, and wait for the floor: what is
/// out is judged in `streams`.
fn floor_is_enough(judge: &mut Judge<'_>, service: &ServiceName) {
    let highest = judge.after.needs.get(service).and_then(|need| need.highest());
    let (Some((stream, holder)), Some(window)) = (highest, judge.after.windows.get(service)) else { return };
    let window: &Window = &window.body;
    let is_reconciled = window.set_by.as_str() == RECONCILIATION;
    let former = judge.before.windows.get(service);
    let falls = former.is_some_and(|former| window.floor < former.body.floor);
    judge.holds(8, window.floor >= holder.minimum || is_reconciled || !falls, || {
        format!(
            "the floor of {service} is {}, and {} of {stream} needs {}",
            window.floor, holder.tag, holder.minimum
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Revision;

    /// What is promised after these records, in the revisions 1, 2, and so on, where everything up to `known` was seen; without
    /// a text the key is gone.
    fn promised_after(records: &[(&str, Option<&str>)], known: i64) -> Option<u32> {
        let mut seen = Seen::default();
        for (number, (key, text)) in (1..).zip(records) {
            seen.take_in(&Revision { number, writes: vec![Written::of_text(key, *text, number)] });
        }
        storage(&seen, &"cellar".parse().unwrap(), known).map(ServiceVersion::get)
    }

    const ADMITTED: &str = r#"{"schema":1,"version":3,"identity":{"nonce":"n","boot":"b"},"at":1}"#;

    /// What an instance reports that was admitted in this revision.
    fn report(version: &str, admission: i64) -> String {
        format!(
            r#"{{"schema":1,"version":{version},"admission":{admission},"rotation":"unknown","health":"unhealthy",
                "step":{{"name":"serving"}},"identity":{{"nonce":"n","boot":"b"}}}}"#
        )
    }

    /// What is promised of a service that was admitted at version 3 and whose agent does not know what runs.
    fn promised(set_by: &str, floor: ServiceVersion, ceiling: ServiceVersion) -> Option<u32> {
        let window = format!(r#"{{"schema":1,"floor":{floor},"ceiling":{ceiling},"set_by":"{set_by}"}}"#);
        let unknown = report("null", 2);
        let records = [
            ("windows/cellar", Some(window.as_str())),
            ("inventory/cellar/n1", Some(ADMITTED)),
            ("reports/cellar/n1", Some(unknown.as_str())),
        ];
        promised_after(&records, 3)
    }

    #[test]
    fn floor_of_an_upgrade_is_promised_below_an_open_ceiling() {
        let (two, lowest, highest) =
            (ServiceVersion::new(2).unwrap(), ServiceVersion::ABSENT, ServiceVersion::MAX);
        assert_eq!(promised("u1", two, two), Some(2));
        assert_eq!(promised("u1", two, highest), Some(2), "its service shares the schema of u1");
        assert_eq!(promised("compute-releases", two, highest), None, "it is only watched");
        assert_eq!(promised("u1", lowest, highest), None, "every version is admitted");
    }

    #[test]
    fn what_runs_counts_until_a_coordinator_had_to_see_a_change() {
        let (key, says, withheld) = ("reports/cellar/n1", report("3", 1), report("null", 1));
        for falls in [Some(withheld.as_str()), None] {
            let admission = ("inventory/cellar/n1", Some(ADMITTED));
            let mut records = vec![admission, (key, Some(says.as_str())), (key, falls)];
            assert_eq!(promised_after(&records, 2), Some(3), "it may have been seen before: {falls:?}");
            assert_eq!(promised_after(&records, 3), None, "a coordinator has seen the change: {falls:?}");
            records.push(admission);
            assert_eq!(promised_after(&records, 2), None, "an admission is compared: {falls:?}");
        }
    }
}
