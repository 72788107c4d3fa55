//! The sizes of waves as they are stored: a number is one wave, `[size, times]` are equal ones that follow one another.
//! The record is written with each wave; of a large fleet that goes one by one it would be nothing but ones.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// So many equal waves are shorter in one than one by one.
const WORTH_IT: usize = 4;

/// No fleet has more waves: what claims to is not a record of ours, and is not unfolded.
const MOST: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    One(u32),
    Equal(u32, u32),
}

/// Folds what is equal.
pub fn serialize<S: Serializer>(sizes: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let stored = sizes.chunk_by(PartialEq::eq).flat_map(|equal| match u32::try_from(equal.len()) {
        Ok(times) if equal.len() >= WORTH_IT => vec![Stored::Equal(equal[0], times)],
        _ => equal.iter().copied().map(Stored::One).collect(),
    });
    serializer.collect_seq(stored)
}

/// Unfolds it.
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
    use serde_json::json;

    #[test]
    fn what_is_equal_is_folded_and_read_as_it_was() {
        let folded = [
            (vec![], json!([])),
            (vec![1, 1, 2], json!([1, 1, 2])),
            (vec![7; 4], json!([[7, 4]])),
            ([vec![1; 20_000], vec![3], vec![2; 5]].concat(), json!([[1, 20_000], 3, [2, 5]])),
        ];
        for (sizes, stored) in folded {
            let division = Division { pages: 1, sizes };
            let written = serde_json::to_value(&division).unwrap();
            assert_eq!(written, json!({ "pages": 1, "sizes": stored }));
            assert_eq!(serde_json::from_value::<Division>(written).unwrap(), division);
        }
        // As it was written before.
        let plain: Division =
            serde_json::from_value(json!({ "pages": 1, "sizes": [2, 2, 2, 2, 2] })).unwrap();
        assert_eq!(plain.sizes, [2; 5]);
    }

    #[test]
    fn what_is_no_size_is_refused_and_not_unfolded() {
        let refused =
            [json!([-1]), json!([[1]]), json!([[1, 2, 3]]), json!(["1"]), json!([[1, 4_000_000_000u32]])];
        for sizes in refused {
            let read = serde_json::from_value::<Division>(json!({ "pages": 1, "sizes": sizes }));
            assert!(read.is_err(), "{read:?}");
        }
    }
}
