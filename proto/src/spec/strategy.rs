//! How instances are grouped into waves: what is exposed together before the next wait. Not how many are out at
//! once: that is `max_unavailable`, and a last wave of 70 % goes through in turns.

use super::Flaw;
use crate::Amount;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A grouping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Strategy {
    /// Equal groups.
    Rolling {
        /// The size of each.
        #[serde(default = "one")]
        batch: Amount,
    },
    /// Growing groups (Heat: 1, then 1 %, 5 %, 20 % of the fleet, then the rest).
    Canary {
        /// The size of each, `rest` last.
        #[serde(default = "heat_steps")]
        steps: Vec<CanaryStep>,
    },
    /// One group.
    Immediate,
}

/// The size of one canary group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CanaryStep {
    /// So many, or that share of the fleet as it was when the roll began, rounded up, at least 1.
    Of(Amount),
    /// All that remain.
    Rest,
}

fn one() -> Amount {
    Amount::Count(1)
}

/// Heat's own: 1, then 1 %, 5 %, 20 % of the fleet, then the rest.
pub(crate) fn heat_steps() -> Vec<CanaryStep> {
    let share = |text: &str| CanaryStep::Of(text.parse().expect("a literal percentage"));
    vec![CanaryStep::Of(one()), share("1%"), share("5%"), share("20%"), CanaryStep::Rest]
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Rolling { batch: one() }
    }
}

impl Strategy {
    /// Everything that is wrong with it by itself.
    pub(crate) fn flaws(&self) -> Vec<Flaw> {
        let flaw = |field, what: &str| vec![Flaw { field, what: what.to_owned() }];
        match self {
            Self::Rolling { batch: Amount::Count(0) } => {
                flaw("strategy.rolling.batch", "is 0: 1 or more, or a percentage, is allowed")
            }
            Self::Canary { steps } if steps.is_empty() => {
                flaw("strategy.canary.steps", "is empty: at least one step is needed")
            }
            Self::Canary { steps } if steps.contains(&CanaryStep::Of(Amount::Count(0))) => {
                flaw("strategy.canary.steps", "has a step of 0: 1 or more, a percentage, or rest, is allowed")
            }
            Self::Canary { steps } if steps[..steps.len() - 1].contains(&CanaryStep::Rest) => flaw(
                "strategy.canary.steps",
                "has a step after rest: rest takes all that remain, so it comes last",
            ),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for CanaryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(amount) => amount.fmt(f),
            Self::Rest => f.write_str("rest"),
        }
    }
}

impl Serialize for CanaryStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Of(amount) => amount.serialize(serializer),
            Self::Rest => serializer.serialize_str("rest"),
        }
    }
}

impl<'de> Deserialize<'de> for CanaryStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = CanaryStep;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number such as 1, a percentage from \"1%\" to \"100%\", or rest")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<CanaryStep, E> {
                u32::try_from(n).map(|n| CanaryStep::Of(Amount::Count(n))).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<CanaryStep, E> {
                u32::try_from(n)
                    .map(|n| CanaryStep::Of(Amount::Count(n)))
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(n), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<CanaryStep, E> {
                if text == "rest" {
                    Ok(CanaryStep::Rest)
                } else {
                    text.parse().map(CanaryStep::Of).map_err(E::custom)
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
