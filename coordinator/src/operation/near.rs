//! "Did you mean": a name in a request that is not there, and the existing name nearest to it.

use super::{OperationError, unreadable};
use crate::context::Context;
use serde::Serialize;
use serde_json::Value as Json;
use tidegate_planner::{Fleet, ServiceFleet};
use tidegate_proto::Key;
use tidegate_proto::wire::v1::RevokeTokenRequest;

/// The error of an operation. Where it names something that is not there, the nearest name of its kind is added; where the
/// record of it is there and cannot be read, that is said instead.
pub fn hinted<A: Serialize>(context: &Context, asked: &A, error: OperationError) -> OperationError {
    let OperationError::NotFound(message) = error else { return error };
    let asked_for_token = std::any::type_name::<A>() == std::any::type_name::<RevokeTokenRequest>();
    let asked = serde_json::to_value(asked).unwrap_or_default();
    for key in subjects(&asked, asked_for_token) {
        if let Err(refused) = unreadable::refuse(context, "the request was not accepted", &[key]) {
            return refused;
        }
    }
    let view = context.mirror.view();
    let near = meant(&view.fleet, &asked, asked_for_token, &message);
    OperationError::NotFound(match near {
        Some(near) => format!("{message}; did you mean {near}?"),
        None => message,
    })
}

/// The records of the upgrade, stream and group that a request names.
fn subjects(asked: &Json, asked_for_token: bool) -> Vec<Key> {
    let name = |field: &str| asked.get(field).and_then(Json::as_str);
    let upgrade = name("id").filter(|_| !asked_for_token).and_then(|id| id.parse().ok()).map(Key::Upgrade);
    let stream = name("stream").and_then(|stream| stream.parse().ok()).map(Key::Stream);
    let group = name("group").and_then(|group| group.parse().ok()).map(Key::Group);
    [upgrade, stream, group].into_iter().flatten().collect()
}

/// The nearest name to the first that the message says is missing.
fn meant(fleet: &Fleet, asked: &Json, asked_for_token: bool, message: &str) -> Option<String> {
    let fields =
        asked.as_object()?.iter().filter_map(|(field, value)| Some((field.as_str(), value.as_str()?)));
    let named = fields.filter(|(_, name)| !name.is_empty() && message.contains(name));
    named.into_iter().find_map(|(field, name)| match field {
        "id" if asked_for_token => nearest(name, fleet.tokens().map(|(id, _)| id.to_string())),
        "id" => nearest(name, fleet.upgrades().map(|(id, _)| id.to_string())),
        "service" => nearest(name, services(fleet)),
        "stream" => nearest(name, fleet.streams().map(|(stream, _)| stream.to_string())),
        "group" => nearest(name, fleet.groups().map(|(group, _)| group.to_string())),
        "task" => nearest(name, fleet.tasks().map(|(_, task, _)| task.to_string())),
        "node" => nearest(name, fleet.services().flat_map(nodes)),
        "instance" => instance(fleet, name),
        _ => None,
    })
}

fn services(fleet: &Fleet) -> impl Iterator<Item = String> {
    fleet.services().map(|service| service.name().to_string())
}

fn nodes(service: &ServiceFleet) -> impl Iterator<Item = String> {
    service.instances().map(|instance| instance.node.to_string())
}

/// An instance as SERVICE/NODE; service and node may both be mistyped.
fn instance(fleet: &Fleet, name: &str) -> Option<String> {
    let (service, node) = name.split_once('/')?;
    let close = |name: &str, names: &mut dyn Iterator<Item = String>| {
        let names: Vec<String> = names.collect();
        if names.iter().any(|each| each == name) { Some(name.to_owned()) } else { nearest(name, names) }
    };
    let service = close(service, &mut services(fleet))?;
    let found = fleet.services().find(|of| of.name().as_str() == service)?;
    Some(format!("{service}/{}", close(node, &mut nodes(found))?))
}

/// The nearest of these names, unless the name is one of them: one that is spelt alike, or the only one that begins so.
fn nearest(name: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    let limit = (name.len() / 3).clamp(1, 3);
    let (mut best, mut begins): (Option<(usize, String)>, Vec<String>) = (None, Vec::new());
    for each in names {
        if each == name {
            return None;
        }
        if each.len().abs_diff(name.len()) <= limit {
            let distance = strsim::osa_distance(name, &each);
            if distance <= limit && best.as_ref().is_none_or(|(least, _)| distance < *least) {
                best = Some((distance, each));
                continue;
            }
        }
        if name.len() >= 3 && begins.len() < 2 && each.starts_with(name) {
            begins.push(each);
        }
    }
    best.map(|(_, name)| name).or_else(|| begins.pop().filter(|_| begins.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_is_spelt_alike_or_begun_is_nearest() {
        let names = ["pantry-api", "pantry-db", "orders-20261121-0901", "orders-x", "n1"];
        let near = |name: &str| nearest(name, names.map(ToOwned::to_owned));
        assert_eq!(near("pantyr-api").as_deref(), Some("pantry-api"));
        assert_eq!(near("pantry-dbs").as_deref(), Some("pantry-db"));
        assert_eq!(near("orders-2026").as_deref(), Some("orders-20261121-0901"));
        assert_eq!(near("orders-").as_deref(), Some("orders-x"), "spelt alike");
        assert_eq!(near("n2").as_deref(), Some("n1"));
        for none in ["pan", "pantry-api", "billing", "zz", ""] {
            assert_eq!(near(none), None, "{none}");
        }
    }
}
