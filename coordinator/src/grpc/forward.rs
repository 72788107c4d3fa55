//! What only the leader may do goes to the leader: here, if this coordinator leads, else forwarded, once.

use super::client::{self, Client};
use super::guard::Token;
use crate::room::Room;
use crate::seat::Seat;
use crate::telemetry::Chain;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::{Request, Status};

/// The mark of a call that a follower has forwarded: it is never forwarded again.
const FORWARDED: &str = "tidegate-forwarded";

/// How the other coordinators are reached. They share token and certificate authority.
#[derive(Clone, Default)]
pub struct Peers {
    /// The token that calls bear.
    pub token: Option<Token>,
    /// Whom to trust, for those that speak TLS.
    pub ca: Option<PathBuf>,
}

/// Where a call goes.
pub enum Route {
    /// This coordinator leads.
    Here(Arc<Seat>),
    /// That one does.
    There(Box<Client>),
}

impl Peers {
    /// Where a call goes that only the leader may do.
    pub async fn route<T>(&self, room: &Room, request: &Request<T>) -> Result<Route, Status> {
        if let Some(seat) = room.led_here() {
            return Ok(Route::Here(seat));
        }
        let leader = room.mirror.picture().leader.as_ref().map(|leader| leader.address.clone());
        let Some(leader) = leader else {
            return Err(Status::unavailable(
                "no coordinator leads at the moment; one takes over within the leader's TTL: ask again",
            ));
        };
        if request.metadata().contains_key(FORWARDED) || leader == *room.address {
            return Err(Status::unavailable("the leadership is changing hands: ask again"));
        }
        match client::connect(&leader, self.token.clone(), self.ca.as_deref()).await {
            Ok(client) => Ok(Route::There(Box::new(client))),
            Err(error) => {
                Err(Status::unavailable(format!("could not forward to the leader: {}", Chain(&error))))
            }
        }
    }
}

/// The same call, marked.
pub fn forwarded<T>(request: Request<T>) -> Request<T> {
    let mut again = Request::new(request.into_inner());
    again.metadata_mut().insert(FORWARDED, tonic::metadata::MetadataValue::from_static("1"));
    again
}
