//! What the seeded rows of the sample service must be, as each version answers them.

use serde_json::{Value, json};

use crate::sample::image::{Audience, Image};
use crate::sample::seed::seed_image;

/// Rows in one page.
pub(super) const PAGE: u32 = 20;

/// Checks a page: the rows that follow number `after` of all `rows`, in order, in the words of the version that answered.
pub(super) fn check_page(
    answer: &Value,
    after: u32,
    rows: u32,
    answered_by: Option<u32>,
) -> Result<(), String> {
    let images = answer["images"].as_array().ok_or("a list without `images`")?;
    let last = rows.min(after.saturating_add(1).saturating_add(PAGE));
    let expected = (after + 1..last).map(|n| right(seed_image(n), answered_by));
    let expected =
        expected.collect::<Option<Vec<_>>>().ok_or("the answer does not say which version gave it")?;
    if images.len() < expected.len() {
        return Err(format!("{} images after number {after}; {} are right", images.len(), expected.len()));
    }
    match expected.iter().zip(images).find(|(right, said)| right != said) {
        Some((right, said)) => Err(format!("{said} is not {right}")),
        None => Ok(()),
    }
}

fn right(image: Image, by: Option<u32>) -> Option<Value> {
    let (public, shared) = (image.audience == Audience::Public, image.audience == Audience::Shared);
    let mut all = json!({"id": image.id, "name": image.name, "public": public, "shared": shared,
        "size": image.size, "checksum": image.checksum, "written_by": 1});
    match by? {
        1 => all["is_public"] = public.into(),
        // Later versions answer as version 2 does.
        _ => all["visibility"] = image.audience.as_str().into(),
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check_page, right};
    use crate::sample::seed::seed_image;

    fn page(by: u32) -> Value {
        json!({"images": (1..10).map(|n| right(seed_image(n), Some(by)).unwrap()).collect::<Vec<_>>()})
    }

    #[test]
    fn each_version_is_held_to_its_own_words() {
        for by in [1, 2] {
            assert_eq!(check_page(&page(by), 0, 10, Some(by)), Ok(()));
            assert!(check_page(&page(by), 0, 10, Some(3 - by)).is_err(), "in the words of the other version");
            assert!(check_page(&page(by), 0, 10, None).is_err());
        }
    }

    #[test]
    fn each_row_and_each_field_counts() {
        let mut short = page(2);
        short["images"].as_array_mut().unwrap().remove(3);
        assert!(check_page(&short, 0, 10, Some(2)).is_err());
        for field in ["id", "name", "public", "shared", "size", "checksum", "written_by", "visibility"] {
            let mut wrong = page(2);
            wrong["images"][4][field] = json!("other");
            assert!(check_page(&wrong, 0, 10, Some(2)).is_err(), "{field}");
        }
    }
}
