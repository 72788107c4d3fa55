use crate::gate::file::tags::presupposed;
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
