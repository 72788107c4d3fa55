//! The sizes of waves as they may be stored: a number is one wave, `[size, times]` are equal ones that follow one another.
//! The record is written with each wave; of a large fleet that goes one by one it is nothing but ones. This version
//! reads both forms and writes numbers alone, which is all that the one before it reads: the next may fold them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// No fleet has more waves: what claims to is not a record of ours, and is not unfolded.
const MOST: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    One(u32),
    Equal(u32, u32),
}

/// Unfolds what is equal.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let mut sizes = Vec::new();
    for stored in Vec::<Stored>::deserialize(deserializer)? {
        let (size, times) = match stored {
            Stored::One(size) => (size, 1),
            Stored::Equal(size, times) => (size, times as usize),
        };
        if sizes.len() + times > MOST {
            return Err(D::Error::custom(format!("more than {MOST} waves")));
        }
        sizes.extend(std::iter::repeat_n(size, times));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use crate::record::upgrade::Division;
    use serde_json::{Value, json};

    fn read(sizes: Value) -> serde_json::Result<Division> {
        serde_json::from_value(json!({ "pages": 1, "sizes": sizes }))
    }

    #[test]
    fn both_forms_are_read_and_the_one_that_all_read_is_written() {
        let forms = [
            (json!([]), vec![]),
            (json!([2, 2, 2, 2]), vec![2; 4]),
            (json!([[1, 20_000], 3, [2, 5]]), [vec![1; 20_000], vec![3], vec![2; 5]].concat()),
        ];
        for (stored, sizes) in forms {
            let division = read(stored).unwrap();
            assert_eq!(division.sizes, sizes);
            assert_eq!(serde_json::to_value(&division).unwrap()["sizes"], json!(sizes));
        }
    }

    #[test]
    fn what_is_no_size_is_refused_and_not_unfolded() {
        let refused =
            [json!([-1]), json!([[1]]), json!([[1, 2, 3]]), json!(["1"]), json!([[1, 4_000_000_000u32]])];
        for sizes in refused {
            let read = read(sizes);
            assert!(read.is_err(), "{read:?}");
        }
    }
}
