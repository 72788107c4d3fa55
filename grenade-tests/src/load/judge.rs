//! Whether an answer is right, and what is known of its object from then on. Pure.

use serde_json::{Map, Value};

use crate::load::exchange::Exchange;
use crate::load::object::Object;
use crate::load::outcome::Failure;
use crate::load::script::{Deed, ScriptStep, WRITTEN_BY};
use crate::load::wire::Answer;

/// How much of an answer is quoted.
const QUOTED: usize = 200;

/// Compares an answer with what it must be; answers the variables that are kept of it.
pub(crate) fn judged(
    right: &Exchange,
    answer: &Answer,
    variables: &Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let good = match right.status.is_empty() {
        true => (200..300).contains(&answer.status),
        false => right.status.contains(&answer.status),
    };
    let text = String::from_utf8_lossy(&answer.body);
    if !good {
        let expected = match &right.status[..] {
            [] => "200 to 299".to_owned(),
            some => some.iter().map(u16::to_string).collect::<Vec<_>>().join(" or "),
        };
        let said: String = text.chars().take(QUOTED).collect();
        return Err(Failure::Status(answer.status, format!("{said} ({expected} is expected)")));
    }
    let value = |name: &str| variables.get(name).cloned();
    let missing = |name: String| Failure::Content(format!("`{{{name}}}` has no value yet"));
    if let Some(contained) = &right.contains {
        let contained = contained.fill(&value).map_err(missing)?;
        if !text.contains(&contained) {
            let said: String = text.chars().take(QUOTED).collect();
            return Err(Failure::Content(format!("`{contained}` is not in the answer: {said}")));
        }
    }
    if right.json.is_empty() && right.keep.is_empty() {
        return Ok(Map::new());
    }
    let body: Value = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::Content(format!("the answer is no JSON: {e}")))?;
    for (pointer, pattern) in &right.json {
        let expected = pattern.fill(&value).map_err(missing)?;
        match body.pointer(pointer) {
            Some(said) if *said == expected => {}
            said => {
                let said = said.map_or("absent".to_owned(), Value::to_string);
                return Err(Failure::Content(format!("{pointer} is {said}, not {expected}")));
            }
        }
    }
    let kept = right.keep.iter().map(|(name, pointer)| match body.pointer(pointer) {
        Some(value) => Ok((name.clone(), value.clone())),
        None => Err(Failure::Content(format!("{pointer} is absent in the answer"))),
    });
    kept.collect()
}

/// The object that is left after a good answer, with its kind.
pub(super) fn left(
    step: &ScriptStep,
    before: Object,
    mut variables: Map<String, Value>,
    kept: Map<String, Value>,
    by: Option<u32>,
) -> Option<(String, Object)> {
    let kind = step.makes.as_deref().or(step.takes())?.to_owned();
    match step.deed {
        Deed::None | Deed::Ends => None,
        Deed::Reads => Some((kind, before)),
        Deed::Makes | Deed::Changes => {
            for passing in ["run", "seq", WRITTEN_BY] {
                variables.remove(passing);
            }
            variables.extend(kept);
            Some((kind, Object { variables, written_by: by }))
        }
    }
}
