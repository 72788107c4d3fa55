//! An upgrade under way, as the people who carry it out see it.

/// How often they look, in milliseconds.
pub(super) const LOOK: u64 = 5_000;

/// After so long everything that went wrong ends, in milliseconds.
pub(super) const MISFORTUNE: u64 = 150_000;

/// An upgrade under way.
#[derive(Debug, Clone)]
pub(super) struct Current {
    /// Its place in the scenario.
    pub plan: usize,
    /// Its id.
    pub id: String,
    /// When it was started.
    pub since: u64,
    /// The form of its schema before it began.
    pub form: Option<Vec<String>>,
    /// Whether it is a further attempt, with a corrected release.
    pub is_retry: bool,
    /// How often it was resumed.
    pub resumptions: u32,
    /// Whether a gate job was recorded that did not pass.
    pub gate_failed: bool,
    /// Whether what is wrong with its release was corrected.
    pub corrected: bool,
    /// How often people looked and nothing explained why it stands.
    pub unexplained: u32,
}

impl Current {
    pub(super) fn new(
        plan: usize,
        id: String,
        since: u64,
        form: Option<Vec<String>>,
        is_retry: bool,
    ) -> Self {
        Self {
            plan,
            id,
            since,
            form,
            is_retry,
            corrected: false,
            gate_failed: false,
            resumptions: 0,
            unexplained: 0,
        }
    }
}
