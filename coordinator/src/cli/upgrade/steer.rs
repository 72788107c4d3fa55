//! The verbs that steer an upgrade.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::fleet::told;
use crate::cli::reach::Reach;
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, PauseUpgradeRequest, ResumeUpgradeRequest, RetryInstanceRequest,
    RollBackUpgradeRequest, SkipInstanceRequest,
};

macro_rules! steer {
    ($(#[$doc:meta])* $name:ident($method:ident, $request:ident { $($field:ident),* })) => {
        $(#[$doc])*
        pub(crate) async fn $name(reach: &Reach, $($field: String),*) -> Result<Outcome, Failure> {
            let who = reach.who();
            told(reach, reach.client().await?.$method($request { $($field,)* who }).await?.get_ref())
        }
    };
}

/// `tidegate upgrade approve`.
pub(super) async fn approve(
    reach: &Reach,
    id: String,
    phase: String,
    note: String,
    accepts: Vec<String>,
) -> Result<Outcome, Failure> {
    let request = ApproveUpgradeRequest { id, phase, note, who: reach.who(), accepts };
    told(reach, reach.client().await?.approve_upgrade(request).await?.get_ref())
}

steer!(
    /// `tidegate upgrade pause`.
    pause(pause_upgrade, PauseUpgradeRequest { id, why })
);
steer!(
    /// `tidegate upgrade resume`.
    resume(resume_upgrade, ResumeUpgradeRequest { id, why })
);
steer!(
    /// `tidegate upgrade rollback`.
    roll_back(roll_back_upgrade, RollBackUpgradeRequest { id, why })
);
steer!(
    /// `tidegate upgrade skip`.
    skip(skip_instance, SkipInstanceRequest { id, node, why })
);

/// `tidegate upgrade retry`.
pub(super) async fn retry(
    reach: &Reach,
    id: String,
    node: String,
    why: String,
    declare_stopped: bool,
) -> Result<Outcome, Failure> {
    let request = RetryInstanceRequest { id, node, why, who: reach.who(), declare_stopped };
    told(reach, reach.client().await?.retry_instance(request).await?.get_ref())
}
