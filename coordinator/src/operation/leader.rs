//! Who leads.

use crate::room::Room;
use tidegate_proto::wire::v1::LeaderReply;

/// Tells who leads, and how far this coordinator sees.
pub fn leader(room: &Room) -> LeaderReply {
    let trouble = room.trouble();
    let picture = room.mirror.picture();
    let leader = picture.leader.as_ref();
    LeaderReply {
        address: leader.map(|leader| leader.address.clone()).unwrap_or_default(),
        term: leader.map(|leader| leader.term.to_string()).unwrap_or_default(),
        here: room.led_here().is_some(),
        revision: picture.fleet.revision().0,
        trouble,
    }
}
