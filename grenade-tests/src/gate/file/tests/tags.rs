use std::path::Path;

use crate::gate::file::parse;
use crate::gate::file::tags::presupposed;
use crate::gate::init::EXAMPLE;
use tidegate_proto::GateTag::{Rolling, SupportsUpgrade, ZeroDowntime, ZeroImpact};

#[test]
fn tags_that_are_presupposed_and_not_asserted_are_named() {
    for (tags, expected) in [
        (
            &[ZeroImpact][..],
            Some("zero-impact presupposes zero-downtime, rolling and supports-upgrade, which"),
        ),
        (
            &[SupportsUpgrade, ZeroDowntime],
            Some("zero-downtime presupposes rolling, which this gate does not decide"),
        ),
        (&[Rolling], Some("rolling presupposes supports-upgrade, which")),
        (&[SupportsUpgrade, ZeroImpact], Some("zero-impact presupposes zero-downtime and rolling, which")),
        (&[SupportsUpgrade], None),
        (&[SupportsUpgrade, Rolling, ZeroDowntime, ZeroImpact], None),
    ] {
        let said = presupposed(tags);
        let is_right = match expected {
            Some(expected) => said.as_ref().is_some_and(|said| said.starts_with(expected)),
            None => said.is_none(),
        };
        assert!(is_right, "{tags:?}: {said:?}");
    }
}

#[test]
fn fields_of_a_tag_that_is_not_asserted_are_named() {
    let asserted = "tags: [supports-upgrade, rolling, zero-downtime]";
    let documented = "\ndocumented: [tidegate upgrade start …]\n";
    for (tags, more, unused) in [
        (
            "tags: [zero-downtime]",
            documented,
            vec![("arrangements", Rolling), ("documented", SupportsUpgrade)],
        ),
        ("tags: [rolling]", documented, vec![("documented", SupportsUpgrade)]),
        ("tags: [supports-upgrade]", documented, vec![("arrangements", Rolling)]),
        ("tags: [zero-impact]", "", vec![("arrangements", Rolling)]),
        (asserted, documented, vec![]),
    ] {
        let text = EXAMPLE.replace(asserted, tags) + more;
        let gate = parse(&text, Path::new("gate.yaml"), Path::new("/")).unwrap();
        assert_eq!(gate.unused, unused, "{tags}");
    }
    let default = EXAMPLE.replace("arrangements:", "# arrangements:").replace("  - {base: 2, target: 1}", "");
    let gate =
        parse(&default.replace(asserted, "tags: [zero-downtime]"), Path::new("gate.yaml"), Path::new("/"));
    assert_eq!(gate.unwrap().unused, [], "a default is not written");
}
