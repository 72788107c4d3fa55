//! Which stream a release belongs to: the one it was posted to, or one of its lines.

use semver::Version;
use tidegate_proto::compute::ReleaseRequest;
use tidegate_proto::record::stream::{Grouping, SemverLevel, Stream};
use tidegate_proto::{GroupLabel, ReleaseRevision, ReleaseTag, StreamName};

/// Why the stream cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGroup {
    /// The tag has no semantic version.
    #[error(
        "stream {base} is grouped by semantic version and tag {tag} holds none: it ends in one, such as v1.2.3 or compute-1.2.3-rc.1"
    )]
    NotSemver {
        /// The stream.
        base: StreamName,
        /// The tag.
        tag: ReleaseTag,
    },
    /// The request does not say.
    #[error("stream {base} is grouped by {what} and the request has none")]
    Unsaid {
        /// The stream.
        base: StreamName,
        /// What is missing.
        what: &'static str,
    },
    /// What is meant for one line would go to every compute.
    #[error(
        "stream {base} is not grouped and the request names a {what}: every compute would get what is meant for one line; set `grouping` of the stream first, or leave {what} out"
    )]
    Ungrouped {
        /// The stream.
        base: StreamName,
        /// What the request names.
        what: &'static str,
    },
    /// The two together are no name.
    #[error("{0:?} would be the stream, and is no name: it is longer than 63 bytes")]
    TooLong(String),
}

/// The stream that a release posted to `base` belongs to.
pub fn stream_of(
    base: &StreamName,
    grouping: Grouping,
    request: &ReleaseRequest,
) -> Result<StreamName, NoGroup> {
    let unsaid = |what| NoGroup::Unsaid { base: base.clone(), what };
    let said = |label: &Option<GroupLabel>, what| {
        label.as_ref().map(GroupLabel::to_string).ok_or_else(|| unsaid(what))
    };
    let line = match grouping {
        Grouping::None => {
            let labels = [("pull_request", &request.pull_request), ("group", &request.group)];
            return match labels.into_iter().find(|(_, label)| label.is_some()) {
                Some((what, _)) => Err(NoGroup::Ungrouped { base: base.clone(), what }),
                None => Ok(base.clone()),
            };
        }
        Grouping::Semver(level) => line(&request.tag, level)
            .ok_or_else(|| NoGroup::NotSemver { base: base.clone(), tag: request.tag.clone() })?,
        Grouping::PullRequest => format!("pr-{}", said(&request.pull_request, "pull_request")?),
        Grouping::Name => said(&request.group, "group")?,
    };
    let name = format!("{base}-{line}");
    name.parse().map_err(|_| NoGroup::TooLong(name))
}

/// A tag that is older than one of its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tag {tag} ({asked}) is older than {newest} (revision {revision}), which its line has: semantic versions only rise within a line; to go back, roll back to a revision"
)]
pub struct OutOfOrder {
    /// The tag.
    tag: ReleaseTag,
    /// Its version.
    asked: Version,
    /// The newest tag of the line.
    newest: ReleaseTag,
    /// Its revision.
    revision: ReleaseRevision,
}

/// Whether a tag is not older, by semantic version, than what a line has.
pub fn in_order(line: &Stream, tag: &ReleaseTag) -> Result<(), OutOfOrder> {
    let versions = line.heads().filter_map(|head| Some((version(&head.release.tag)?, &head.release)));
    let newest = versions.max_by(|(one, _), (other, _)| one.cmp_precedence(other));
    match (version(tag), newest) {
        (Some(asked), Some((version, newest))) if asked.cmp_precedence(&version).is_lt() => {
            let (newest, revision) = (newest.tag.clone(), newest.revision);
            Err(OutOfOrder { tag: tag.clone(), asked, newest, revision })
        }
        _ => Ok(()),
    }
}

/// The semantic version in a tag; a pre-release that is none is left out.
fn version(tag: &ReleaseTag) -> Option<Version> {
    let (at, [major, minor, patch]) = semver(tag.as_str())?;
    Some(Version::parse(&tag.as_str()[at..]).unwrap_or_else(|_| Version::new(major, minor, patch)))
}

/// The line of versions that a tag belongs to: `1.x`, `1.2.x` or `1.2.3`.
fn line(tag: &ReleaseTag, level: SemverLevel) -> Option<String> {
    let (_, [major, minor, patch]) = semver(tag.as_str())?;
    Some(match level {
        SemverLevel::Major => format!("{major}.x"),
        SemverLevel::Minor => format!("{major}.{minor}.x"),
        SemverLevel::Patch => format!("{major}.{minor}.{patch}"),
    })
}

/// The three numbers of the first semantic version in a text: digits without a letter or dot before them (a `v` may
/// be), followed by nothing, a pre-release or build metadata. With where it begins.
fn semver(text: &str) -> Option<(usize, [u64; 3])> {
    let bytes = text.as_bytes();
    (0..text.len()).find_map(|at| {
        let before = &bytes[..at];
        let fresh = matches!(before, [] | [.., b'-' | b'_'] | [b'v'] | [.., b'-' | b'_', b'v']);
        if fresh { Some((at, three_numbers(&text[at..])?)) } else { None }
    })
}

fn three_numbers(text: &str) -> Option<[u64; 3]> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let tail = &text[end..];
    let mut numbers = text[..end].split('.');
    let mut next = || {
        let digits = numbers.next()?;
        let plain = digits == "0" || !digits.starts_with('0');
        if plain { digits.parse().ok() } else { None }
    };
    let three = [next()?, next()?, next()?];
    let whole = numbers.next().is_none() && (tail.is_empty() || tail.starts_with(['-', '+']));
    whole.then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn grouped(grouping: Grouping, request: serde_json::Value) -> Result<String, NoGroup> {
        let request: ReleaseRequest = serde_json::from_value(request).unwrap();
        stream_of(&"shop".parse().unwrap(), grouping, &request).map(|name| name.to_string())
    }

    #[test]
    fn tags_fall_into_the_lines_of_their_level() {
        let at = |level, tag: &str| grouped(Grouping::Semver(level), json!({"version": 1, "tag": tag})).ok();
        for tag in ["1.2.3", "v1.2.3", "shop-1.2.3", "shop-v1.2.3-rc.1", "1.2.3+build5"] {
            assert_eq!(at(SemverLevel::Major, tag).as_deref(), Some("shop-1.x"), "{tag}");
            assert_eq!(at(SemverLevel::Minor, tag).as_deref(), Some("shop-1.2.x"), "{tag}");
            assert_eq!(at(SemverLevel::Patch, tag).as_deref(), Some("shop-1.2.3"), "{tag}");
        }
        for tag in ["release-9057", "1.2", "1.2.3.4", "x1.2.3", "01.2.3", "1.2.3rc1", "1..3"] {
            assert_eq!(at(SemverLevel::Minor, tag), None, "{tag} was taken for a semantic version");
        }
    }

    #[test]
    fn pull_requests_and_groups_are_named_by_the_request() {
        let request = json!({"version": 1, "tag": "t", "pull_request": "417", "group": "blue"});
        assert_eq!(grouped(Grouping::PullRequest, request.clone()).unwrap(), "shop-pr-417");
        assert_eq!(grouped(Grouping::Name, request.clone()).unwrap(), "shop-blue");
        for label in ["pull_request", "group"] {
            let for_one =
                grouped(Grouping::None, json!({"version": 1, "tag": "t", label: "417"})).unwrap_err();
            assert!(for_one.to_string().contains(&format!("names a {label}")), "{for_one}");
        }
        assert_eq!(grouped(Grouping::None, json!({"version": 1, "tag": "t"})).unwrap(), "shop");
        let branch = json!({"version": 1, "tag": "t", "pull_request": "feature/x"});
        let name = grouped(Grouping::PullRequest, branch).unwrap();
        assert!(name.starts_with("shop-pr-feature-x-"), "{name}");
        let silent = grouped(Grouping::PullRequest, json!({"version": 1, "tag": "t"})).unwrap_err();
        assert!(silent.to_string().contains("pull_request"), "{silent}");
        let long = json!({"version": 1, "tag": "t", "group": "g".repeat(60)});
        assert!(matches!(grouped(Grouping::Name, long), Err(NoGroup::TooLong(_))));
    }
}
