//! Requests that only the leader carries out: carried out here in the name of the caller, or forwarded. One form for all
//! services.

use tidegate_proto::wire::v1::{
    CreateTokenReply, Done, MetadataReply, PlanReconciliationReply, ReleaseReply, StartUpgradeReply,
};

/// An answer to such a request, with a revision of the store at which the leader saw what it wrote.
pub(super) trait Written {
    /// That revision.
    fn written(&self) -> i64;
}

macro_rules! written {
    ($($answer:ty: $field:ident),*) => {
        $(impl Written for $answer {
            fn written(&self) -> i64 {
                self.$field
            }
        })*
    };
}

written!(
    Done: revision,
    StartUpgradeReply: revision,
    CreateTokenReply: revision,
    PlanReconciliationReply: revision,
    MetadataReply: revision,
    ReleaseReply: store_revision
);

/// Carries a request out by `$operation`, or forwards it to the leader's `$method` of the same service. A follower answers
/// once its own snapshot shows what was written, so that the next request to it finds that.
macro_rules! change {
    ($self:ident, $request:ident, $operation:path, $client:ident.$method:ident) => {{
        let principal = principal(&$request)?;
        match $self.peers.route(&$self.context, &$request, &principal).await? {
            Route::Here(leadership) => {
                let mut asked = $request.into_inner();
                asked.who = principal.who(&asked.who);
                let named = asked.clone();
                let done = $operation(&$self.context, &leadership, asked).await;
                Ok(Response::new(done.map_err(|error| hinted(&$self.context, &named, error))?))
            }
            Route::There(leader) => {
                let answer = leader.$client().$method(forwarded($request, &principal)).await;
                let answer = answer.map_err(unanswered)?;
                seen(&$self.context, answer.get_ref().written()).await;
                Ok(answer)
            }
        }
    }};
}
pub(super) use change;
