//! `grenade record`: records in a coordinator what a gate's report says, for two artifacts. Upgrades whose spec has
//! `requires_gate` wait for that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use tidegate_proto::wire::v1::RecordGateRequest;
use tidegate_proto::{Digest, GateTag, ServiceName, ServiceVersion};

use crate::gate::exit::print;
use crate::gate::reach::{Reach, Unasked, digest_of, note};
use crate::gate::verdict::{Word, worst};

/// The form of the report that is read, and of the JSON that is printed.
const FORM: u32 = 1;
/// The largest report, in bytes: the longest real ones have some hundred KiB.
const MOST_BYTES: u64 = 64 << 20;

const AFTER: &str = "\
A gate file names commands, and not the artifacts that they start: you say which artifacts were tested. Give the sha256
that the agents report for the base, and the release.sha256 of the spec for the target: both are in the next step that
`tidegate upgrade explain` shows.

Examples:
  grenade record grenade-artifacts/report.json --from-sha256 5df6… --to-sha256 0984…
  grenade record report.json --from-artifact pantry-1.tar --to-artifact pantry-2.tar --tag zero-downtime

Exit codes:
  0  what the report says is recorded, whether it passed or not
  3  the report, a digest or the command line is wrong; nothing is recorded
  4  no coordinator recorded it";

/// Options of `grenade record`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Record {
    /// The report.json that `grenade run` wrote
    report: PathBuf,
    /// SHA-256 of the artifact of the base version, or absent
    #[arg(long, value_name = "SHA256", value_parser = Digest::from_declared, required_unless_present = "from_artifact")]
    from_sha256: Option<Digest>,
    /// SHA-256 of the artifact of the target version, or absent
    #[arg(long, value_name = "SHA256", value_parser = Digest::from_declared, required_unless_present = "to_artifact")]
    to_sha256: Option<Digest>,
    /// The artifact of the base version itself, to compute its SHA-256
    #[arg(long, value_name = "FILE", conflicts_with = "from_sha256")]
    from_artifact: Option<PathBuf>,
    /// The artifact of the target version itself, to compute its SHA-256
    #[arg(long, value_name = "FILE", conflicts_with = "to_sha256")]
    to_artifact: Option<PathBuf>,
    /// Record this tag only; may be given several times. Default: every tag of the report
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<GateTag>,
    /// One line of detail to record. Default: the gate's name
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// What is read of a report.
#[derive(Debug, Deserialize)]
struct Report {
    form: u32,
    gate: String,
    service: ServiceName,
    from: ServiceVersion,
    to: ServiceVersion,
    verdict: Word,
    /// Absent in reports of former versions: Tidegate upgraded.
    #[serde(default)]
    procedure: bool,
    /// Absent in reports of former versions: none was.
    #[serde(default)]
    skipped: Option<String>,
    tags: Vec<Judged>,
}

/// What a report says of a tag.
#[derive(Debug, Deserialize)]
struct Judged {
    tag: GateTag,
    verdict: Word,
    checks: Vec<Checked>,
}

#[derive(Debug, Deserialize)]
struct Checked {
    verdict: Word,
}

/// One verdict that was recorded.
#[derive(Debug, Serialize)]
struct Recorded {
    tag: GateTag,
    verdict: Word,
}

/// The output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    form: u32,
    service: &'a ServiceName,
    from: ServiceVersion,
    to: ServiceVersion,
    from_sha256: String,
    to_sha256: String,
    report_sha256: Digest,
    recorded: Vec<Recorded>,
}

impl Record {
    /// Reads, records and prints.
    pub async fn run(self) -> ExitCode {
        match self.recorded().await {
            Ok(text) => print(&text),
            Err(error) => error.exit(),
        }
    }

    async fn recorded(&self) -> Result<String, Unasked> {
        let (report, report_sha256) = read(&self.report)?;
        let from = digest(self.from_sha256, self.from_artifact.as_deref())?;
        let to = digest(self.to_sha256, self.to_artifact.as_deref())?;
        if from == to && !from.is_absent() {
            return Err(Unasked::Usage(format!(
                "both artifacts have the sha256 {from}: a gate job upgrades one to another"
            )));
        }
        let mut output = Output {
            form: FORM,
            service: &report.service,
            from: report.from,
            to: report.to,
            from_sha256: from.declared(),
            to_sha256: to.declared(),
            report_sha256,
            recorded: Vec::new(),
        };
        for judged in self.chosen(&report)? {
            let asked = RecordGateRequest {
                service: report.service.to_string(),
                tag: judged.tag.to_string(),
                from: report.from.get(),
                to: report.to.get(),
                from_sha256: output.from_sha256.clone(),
                to_sha256: output.to_sha256.clone(),
                verdict: judged.verdict.word().to_owned(),
                report_sha256: report_sha256.to_string(),
                note: note(&self.note.clone().unwrap_or_else(|| format!("gate {}", report.gate))),
                who: self.reach.who(),
            };
            let answer =
                self.reach.insist(async |connection| connection.operator().record_gate(asked.clone()).await);
            answer.await.map_err(|error| so_far(error, &output.recorded))?;
            output.recorded.push(Recorded { tag: judged.tag, verdict: judged.verdict });
        }
        Ok(match self.json {
            true => serde_json::to_string(&output).unwrap_or_default() + "\n",
            false => text(&output, self.reach.url()),
        })
    }

    /// The requested tags; the report must have each.
    fn chosen<'a>(&self, report: &'a Report) -> Result<Vec<&'a Judged>, Unasked> {
        let has = || report.tags.iter().map(|judged| judged.tag.word()).collect::<Vec<_>>().join(", ");
        let find = |tag: &GateTag| {
            report.tags.iter().find(|judged| judged.tag == *tag).ok_or_else(|| {
                Unasked::Usage(format!(
                    "{} has no verdict on {tag}; it has: {}",
                    self.report.display(),
                    if report.tags.is_empty() { "none".to_owned() } else { has() }
                ))
            })
        };
        match self.tags.as_slice() {
            [] if report.tags.is_empty() => {
                Err(Unasked::Usage(format!("{} has no verdict on any tag", self.report.display())))
            }
            [] => Ok(report.tags.iter().collect()),
            tags => tags.iter().map(find).collect(),
        }
    }
}

/// What failed, with what was recorded before.
fn so_far(error: Unasked, recorded: &[Recorded]) -> Unasked {
    let before: Vec<&str> = recorded.iter().map(|recorded| recorded.tag.word()).collect();
    let before = if before.is_empty() {
        "nothing is recorded".to_owned()
    } else {
        format!("recorded before that: {}", before.join(", "))
    };
    match error {
        Unasked::Usage(why) => Unasked::Usage(format!("{why}; {before}")),
        Unasked::Away(why) => Unasked::Away(format!("{why}; {before}")),
    }
}

fn digest(given: Option<Digest>, artifact: Option<&Path>) -> Result<Digest, Unasked> {
    match (given, artifact) {
        (Some(digest), _) => Ok(digest),
        (None, Some(path)) => digest_of(path)
            .map_err(|error| Unasked::Usage(format!("could not read {}: {error}", path.display()))),
        (None, None) => Err(Unasked::Usage("a digest of each artifact is needed".to_owned())),
    }
}

/// A report, and its own digest.
fn read(path: &Path) -> Result<(Report, Digest), Unasked> {
    let shown = path.display();
    let wrong = |what: String| Unasked::Usage(format!("{shown}: {what}"));
    let could_not = |error: std::io::Error| {
        Unasked::Usage(format!(
            "could not read {shown}: {error}; `grenade run` writes report.json into its --artifacts directory"
        ))
    };
    let bytes = std::fs::metadata(path).map_err(could_not)?.len();
    if bytes > MOST_BYTES {
        return Err(wrong(format!("is {bytes} bytes long, at most {MOST_BYTES} are allowed")));
    }
    let text = std::fs::read(path).map_err(could_not)?;
    let report: Report =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("is no report of a gate: {error}")))?;
    if report.form != FORM {
        return Err(wrong(format!("has form {}, and this program reads form {FORM}", report.form)));
    }
    if report.to <= report.from {
        return Err(wrong(format!("upgrades from {} to {}: no upgrade", report.from, report.to)));
    }
    if report.procedure {
        return Err(wrong(
            "judges another way of upgrading (`procedure`), which says nothing of Tidegate's".to_owned(),
        ));
    }
    if let Some(skipped) = &report.skipped {
        return Err(wrong(format!(
            "is of an upgrade from {} to {} that skips {skipped}: Tidegate accepts a spec of one hop only, so no upgrade can \
             require this verdict",
            report.from, report.to
        )));
    }
    if !report.tags.is_empty() && worst(report.tags.iter().map(|judged| judged.verdict)) != report.verdict {
        let said = report.verdict.word();
        return Err(wrong(format!("contradicts itself: it says {said}, and not all of its tags do")));
    }
    for (n, judged) in report.tags.iter().enumerate() {
        if report.tags[..n].iter().any(|other| other.tag == judged.tag) {
            return Err(wrong(format!("has two verdicts on {}", judged.tag)));
        }
        // Without checks a verdict rests on nothing.
        let checks = worst(judged.checks.iter().map(|check| check.verdict));
        if checks != judged.verdict {
            return Err(wrong(format!(
                "contradicts itself: it says {} of {}, and its checks say {}",
                judged.verdict.word(),
                judged.tag,
                checks.word()
            )));
        }
    }
    Ok((report, Digest::of(&text)))
}

fn text(output: &Output<'_>, url: &str) -> String {
    let mut text = String::new();
    for Recorded { tag, verdict } in &output.recorded {
        let _ = writeln!(
            text,
            "{:<12}  {tag} of {} from {} (sha256 {}) to {} (sha256 {})",
            verdict.word(),
            output.service,
            output.from,
            output.from_sha256,
            output.to,
            output.to_sha256
        );
    }
    let _ = writeln!(text, "recorded at {url}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn written(change: impl FnOnce(&mut Json)) -> Result<(Report, Digest), Unasked> {
        let mut report = json!({
            "form": 1, "gate": "items", "service": "items", "from": 1, "to": 2, "verdict": "pass",
            "tags": [{"tag": "rolling", "verdict": "pass", "checks": [{"check": "c", "verdict": "pass", "found": "f"}]}],
            "mixes": [], "seconds": 1.5,
        });
        change(&mut report);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), report.to_string()).unwrap();
        read(file.path())
    }

    #[test]
    fn report_is_read_with_its_digest() {
        let (report, sha256) = written(|_| ()).unwrap();
        assert_eq!((report.service.as_str(), report.tags[0].tag), ("items", GateTag::Rolling));
        assert!(!sha256.is_absent());
    }

    #[test]
    fn report_that_is_wrong_or_contradicts_itself_is_refused() {
        let twice = json!([
            {"tag": "rolling", "verdict": "fail", "checks": [{"verdict": "fail"}]},
            {"tag": "rolling", "verdict": "pass", "checks": [{"verdict": "pass"}]},
        ]);
        let of_a_loop = written(|report| report["procedure"] = json!(true)).unwrap_err().to_string();
        assert!(of_a_loop.contains("another way of upgrading"), "{of_a_loop}");
        let skips = written(|report| {
            (report["to"], report["skipped"]) = (json!(3), json!("version 2"));
        });
        let skips = skips.unwrap_err().to_string();
        assert!(skips.contains("from 1 to 3 that skips version 2"), "{skips}");
        let two = written(|report| (report["verdict"], report["tags"]) = (json!("fail"), twice)).unwrap_err();
        assert!(two.to_string().contains("two verdicts on rolling"), "{two}");
        let cases: [(&str, Json, &str); 7] = [
            ("/verdict", json!("fail"), "it says fail, and not all of its tags do"),
            ("/form", json!(2), "has form 2"),
            ("/to", json!(1), "no upgrade"),
            ("/tags/0/tag", json!("zero-errors"), "zero-errors"),
            ("/tags/0/verdict", json!("good"), "good"),
            ("/tags/0/checks/0/verdict", json!("fail"), "its checks say fail"),
            ("/tags/0/checks", json!([]), "its checks say inconclusive"),
        ];
        for (at, value, says) in cases {
            let refused = written(|report| *report.pointer_mut(at).unwrap() = value.clone()).unwrap_err();
            assert!(matches!(&refused, Unasked::Usage(why) if why.contains(says)), "{at}: {refused}");
        }
        let missing = read(Path::new("/nowhere/report.json")).unwrap_err().to_string();
        assert!(missing.contains("grenade run") && missing.contains("/nowhere/report.json"), "{missing}");
    }

    #[test]
    fn digest_is_64_digits_or_the_word_absent() {
        assert_eq!(Digest::from_declared("absent"), Ok(Digest::ABSENT));
        assert!(Digest::from_declared(&"a".repeat(64)).is_ok());
        assert!(Digest::from_declared("abc").unwrap_err().to_string().contains("or the word absent"));
    }
}
