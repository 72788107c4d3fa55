//! What each rpc declares of itself in its `.proto` file: who may call it, and where HTTP has it.

use crate::record::token::Role;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, FileDescriptor, MethodDescriptor, ReflectMessage, Value,
};
use std::sync::LazyLock;

/// An rpc.
#[derive(Debug)]
pub struct Verb {
    /// The rpc itself.
    pub method: MethodDescriptor,
    /// The least role that may call it.
    pub needs: Role,
    /// Where HTTP has it.
    pub routes: Vec<Route>,
    /// The schema of an answer that is a JSON text; empty = the answer is a message.
    pub answer: String,
}

/// One address of HTTP at which a verb is.
#[derive(Debug)]
pub struct Route {
    /// GET, PUT, POST or DELETE.
    pub method: &'static str,
    /// With a name in braces for each field that is in the path.
    pub path: String,
    /// The field that the body is; none = it is an object of every field that is not in the path.
    pub body: Option<FieldDescriptor>,
    /// Its name in the description.
    pub id: String,
    /// What is shown of the reply.
    pub shows: Shows,
}

/// What HTTP shows of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// The message, or the JSON text in it.
    Message,
    /// The release in it, with ETag and Location.
    Released,
    /// The same, and 304 where nothing was written.
    Created,
    /// Stream, whether anything was written, and what.
    Done,
}

impl Verb {
    /// As gRPC has it: `/tidegate.v1.Operator/StartUpgrade`.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.method.parent_service().full_name(), self.method.name())
    }
}

impl Route {
    /// The fields in the path, in its order.
    pub fn in_path(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether it has a body.
    pub fn has_body(&self) -> bool {
        matches!(self.method, "PUT" | "POST")
    }
}

/// Every rpc of every service, in the order of the files.
pub static VERBS: LazyLock<Vec<Verb>> = LazyLock::new(|| {
    let pool =
        DescriptorPool::decode(include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_slice())
            .expect("the compiler of the same build wrote it");
    pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).map(declared).collect()
});

/// Whether HTTP refuses a request without this field.
pub fn is_required(field: &FieldDescriptor) -> bool {
    option(field.options(), "required").is_some_and(|required| required.as_bool() == Some(true))
}

/// The schema of the JSON value whose text the field is.
pub fn schema_of(field: &FieldDescriptor) -> Option<String> {
    Some(option(field.options(), "json")?.as_str()?.to_owned())
}

/// What the file says above a message, a field or an rpc, as running text.
pub fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let infos = file.file_descriptor_proto().source_code_info.as_ref();
    let found = infos.and_then(|infos| infos.location.iter().find(|location| location.path == path));
    let text = found.map(|location| location.leading_comments()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn declared(method: MethodDescriptor) -> Verb {
    let declared = option(method.options(), "verb");
    let verb = declared.as_ref().and_then(Value::as_message);
    let needs = match verb.and_then(|verb| number(verb, "needs")) {
        Some(1) => Role::Read,
        Some(2) => Role::Release,
        _ => Role::Operate,
    };
    let http = verb.and_then(|verb| verb.get_field_by_name("http"));
    let routes = http.as_ref().and_then(|http| http.as_list()).unwrap_or_default();
    let routes = routes.iter().filter_map(Value::as_message).filter_map(|of| route(&method, of)).collect();
    let answer = verb.map(|verb| text(verb, "answer")).unwrap_or_default();
    Verb { method, needs, routes, answer }
}

fn route(method: &MethodDescriptor, declared: &DynamicMessage) -> Option<Route> {
    let addresses = [("get", "GET"), ("put", "PUT"), ("post", "POST"), ("delete", "DELETE")];
    let (field, verb) = addresses.into_iter().find(|(field, _)| declared.has_field_by_name(field))?;
    let id = text(declared, "id");
    Some(Route {
        method: verb,
        path: text(declared, field),
        body: method.input().get_field_by_name(&text(declared, "body")),
        id: if id.is_empty() { lower_first(method.name()) } else { id },
        shows: match number(declared, "shows") {
            Some(1) => Shows::Released,
            Some(2) => Shows::Created,
            Some(3) => Shows::Done,
            _ => Shows::Message,
        },
    })
}

/// The value of an option of ours, where it is set.
fn option(options: DynamicMessage, name: &str) -> Option<Value> {
    let extension =
        options.descriptor().parent_pool().get_extension_by_name(&format!("tidegate.v1.{name}"))?;
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn text(of: &DynamicMessage, field: &str) -> String {
    of.get_field_by_name(field).and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

fn number(of: &DynamicMessage, field: &str) -> Option<i32> {
    of.get_field_by_name(field)?.as_enum_number()
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_verb_declares_role_path_and_path_fields() {
        let mut addresses = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for verb in VERBS.iter() {
            let name = verb.path();
            assert!(option(verb.method.options(), "verb").is_some(), "{name} declares nothing");
            assert!(!verb.routes.is_empty(), "{name} is not to be had over HTTP");
            let said = comment(&verb.method.parent_file(), verb.method.path());
            assert!(said.len() > 5, "{name} has no comment, which describes it in OpenAPI");
            for route in &verb.routes {
                assert!(addresses.insert((route.method, &route.path)), "{route:?} is there twice");
                assert!(ids.insert(&route.id), "{route:?} has the name of another");
                for field in route.in_path() {
                    assert!(verb.method.input().get_field_by_name(field).is_some(), "{name}: {field}");
                }
            }
            let is_text = verb.method.output().full_name() == "tidegate.v1.JsonReply";
            assert_eq!(is_text, !verb.answer.is_empty(), "{name} says what its JSON is");
        }
        assert!(VERBS.len() > 50, "{}", VERBS.len());
    }

    #[test]
    fn declared_options_are_read() {
        let by_name = |name: &str| VERBS.iter().find(|verb| verb.path().ends_with(name)).unwrap();
        let create = by_name("Releases/CreateRelease");
        assert_eq!((create.needs, create.routes[0].shows), (Role::Release, Shows::Created));
        let body = create.routes[0].body.clone().unwrap();
        assert_eq!((body.name(), schema_of(&body).as_deref()), ("body", Some("ReleaseRequest")));
        let retry = by_name("Operator/RetryInstance");
        assert_eq!(retry.needs, Role::Operate);
        assert_eq!(retry.routes[0].in_path().collect::<Vec<_>>(), ["id", "node"]);
        let pin = by_name("Releases/PinCompute").method.input();
        assert!(is_required(&pin.get_field_by_name("why").unwrap()));
        assert!(!is_required(&pin.get_field_by_name("who").unwrap()));
    }
}
