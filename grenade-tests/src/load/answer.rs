//! Whether an answer says what is true. Knows the answers of all versions, and demands of each its own.

use serde_json::Value;

use crate::load::facts::Facts;

/// Compares an image as answered by version `answered_by` with what is known; the first contradiction is the error.
pub fn check_image(answer: &Value, known: &Facts, answered_by: Option<u32>) -> Result<(), String> {
    let expected: [(&str, Value); 6] = [
        ("id", known.id.as_str().into()),
        ("name", known.name.as_str().into()),
        ("public", known.public.into()),
        ("shared", known.shared().into()),
        ("size", known.size.into()),
        ("checksum", known.checksum.as_str().into()),
    ];
    for (field, right) in expected {
        let said = answer.get(field).unwrap_or(&Value::Null);
        if *said != right {
            return Err(format!("image {}: {field} is {said}, not {right}", known.id));
        }
    }
    if let Some(version) = known.written_by
        && answer["written_by"] != version
    {
        return Err(format!("image {}: written_by is {}, not {version}", known.id, answer["written_by"]));
    }
    check_own_field(answer, known, answered_by)
}

fn check_own_field(answer: &Value, known: &Facts, answered_by: Option<u32>) -> Result<(), String> {
    let visibility = match (known.public, known.members) {
        (true, _) => "public",
        (false, true) => "shared",
        (false, false) => "private",
    };
    let (field, right, other) = match answered_by {
        Some(1) => ("is_public", Value::from(known.public), "visibility"),
        // Later versions answer as version 2 does.
        Some(2..) => ("visibility", Value::from(visibility), "is_public"),
        Some(0) => return Err("answered by version 0, which there is not".to_owned()),
        None => return Err("the answer does not say which version gave it".to_owned()),
    };
    match (answer.get(field), answer.get(other)) {
        (Some(said), None) if *said == right => Ok(()),
        (said, foreign) => {
            Err(format!("image {}: {field} is {said:?}, not {right}; {other} is {foreign:?}", known.id))
        }
    }
}

/// Checks a page of seeded images: exactly those that follow number `after`, in order, each with its content.
pub fn check_page(
    answer: &Value,
    after: u32,
    rows: u32,
    page: u32,
    answered_by: Option<u32>,
) -> Result<(), String> {
    let Some(images) = answer["images"].as_array() else {
        return Err("a list without `images`".to_owned());
    };
    let last = rows.min(after.saturating_add(1).saturating_add(page));
    let expected: Vec<Facts> = (after + 1..last).map(Facts::seeded).collect();
    if images.len() < expected.len() || images.len() > page as usize {
        return Err(format!(
            "{} images after number {after}; {} to {page} are right",
            images.len(),
            expected.len()
        ));
    }
    expected.iter().zip(images).try_for_each(|(known, image)| check_image(image, known, answered_by))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check_image;
    use crate::load::facts::Facts;

    fn shared() -> Facts {
        Facts { name: "a".to_owned(), public: false, members: true, written_by: Some(1), ..Facts::seeded(7) }
    }

    #[test]
    fn both_versions_answers_are_understood() {
        let known = shared();
        let stable = json!({"id": known.id, "name": "a", "public": false, "shared": true, "size": known.size,
            "checksum": known.checksum, "written_by": 1});
        let (mut v1, mut v2) = (stable.clone(), stable);
        v1["is_public"] = json!(false);
        v2["visibility"] = json!("shared");
        assert_eq!(check_image(&v1, &known, Some(1)), Ok(()));
        assert_eq!(check_image(&v2, &known, Some(2)), Ok(()));
        assert!(check_image(&v1, &known, Some(2)).is_err(), "version 2 answered in the words of version 1");
        v2["visibility"] = json!("private");
        let wrong = check_image(&v2, &known, Some(2)).unwrap_err();
        assert!(wrong.contains("visibility"), "{wrong}");
    }

    #[test]
    fn each_field_counts() {
        let known = shared();
        let good = json!({"id": known.id, "name": "a", "public": false, "shared": true, "size": known.size,
            "checksum": known.checksum, "written_by": 1, "is_public": false});
        assert_eq!(check_image(&good, &known, Some(1)), Ok(()));
        for field in ["id", "name", "public", "shared", "size", "checksum", "written_by", "is_public"] {
            let mut bad = good.clone();
            bad[field] = json!("other");
            let said = check_image(&bad, &known, Some(1)).unwrap_err();
            assert!(said.contains(field), "{field}: {said}");
        }
    }
}
