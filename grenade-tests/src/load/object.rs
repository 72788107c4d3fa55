//! The objects that the load made, each with the variables that an answer about it must have. At most one request at a
//! time uses an object. One whose write got no clear answer is dropped: its content is unknown.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value};

/// One object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// Its variables.
    pub variables: Map<String, Value>,
    /// Which version wrote it last, where that is known.
    pub written_by: Option<u32>,
}

/// The objects that no request holds, by kind.
#[derive(Debug, Default)]
pub struct Idle(Mutex<BTreeMap<String, Vec<Object>>>);

impl Idle {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Object>>> {
        // Lists of values are whole even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one out, by the dice.
    pub fn take(&self, kind: &str, dice: &mut StdRng) -> Option<Object> {
        let mut kinds = self.kinds();
        let objects = kinds.get_mut(kind).filter(|objects| !objects.is_empty())?;
        let at = dice.random_range(0..objects.len());
        Some(objects.swap_remove(at))
    }

    /// Takes the older half of each kind out, at most so many of each: no request touches them any more.
    pub fn set_aside(&self, most: usize) -> Vec<(String, Object)> {
        let mut aside = Vec::new();
        for (kind, objects) in self.kinds().iter_mut() {
            let half = objects.len().div_ceil(2).min(most);
            aside.extend(objects.drain(..half).map(|object| (kind.clone(), object)));
        }
        aside
    }

    /// Takes any one out.
    pub fn pop(&self, kind: &str) -> Option<Object> {
        self.kinds().get_mut(kind)?.pop()
    }

    /// Puts one back, or a new one in.
    pub fn put(&self, kind: &str, object: Object) {
        self.kinds().entry(kind.to_owned()).or_default().push(object);
    }
}
