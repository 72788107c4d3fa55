//! The schemas of a description: of messages from their descriptors, of JSON texts from the types that they are read into
//! and made from.

use crate::operation::metadata::view::{Group, Served};
use crate::operation::release::view::{Page, Pointer, Release, Settings, Start, Stream, Waits};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};
use tidegate_proto::compute::ReleaseRequest;
use tidegate_proto::metadata::UpdateRequest;
use tidegate_proto::record::stream::StreamSettings;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::verb::comment;

const PLACE: &str = "/components/schemas";

pub(super) struct Schemas {
    messages: Map<String, Json>,
    answered: SchemaGenerator,
    asked: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = |contract| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = PLACE.into();
                settings.contract = contract;
                settings.meta_schema = None;
            })
        };
        let inline = |settings: SchemaSettings| settings.with(|settings| settings.inline_subschemas = true);
        Self {
            messages: Map::new(),
            answered: settings(Contract::Serialize).into_generator(),
            asked: inline(settings(Contract::Deserialize)).into_generator(),
        }
    }

    /// Every schema that was referred to, by name.
    pub(super) fn all(mut self) -> Map<String, Json> {
        let mut all = self.answered.take_definitions(true);
        let twice = self.messages.keys().find(|name| all.contains_key(*name));
        assert!(
            twice.is_none(),
            "{twice:?} is the name of a message and of a type: one schema would hide the other"
        );
        all.append(&mut self.messages);
        let mut all: Vec<(String, Json)> = all.into_iter().collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all.into_iter().collect()
    }

    /// A JSON text in an answer, by the name that an rpc gives it.
    pub(super) fn answered(&mut self, name: &str) -> Json {
        fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Json {
            generator.subschema_for::<T>().to_value()
        }
        let generator = &mut self.answered;
        match name {
            "Release" => of::<Release>(generator),
            "Page" => of::<Page>(generator),
            "Stream" => of::<Stream>(generator),
            "Settings" => of::<Settings>(generator),
            "Start" => of::<Start>(generator),
            "Waits" => of::<Waits>(generator),
            "Pointer" => of::<Pointer>(generator),
            "Group" => of::<Group>(generator),
            "Served" => of::<Served>(generator),
            "Reason" => of::<WaitingFor>(generator),
            other => unreachable!("no type is known for the schema {other}"),
        }
    }

    /// A JSON text in a request.
    pub(super) fn asked(&mut self, name: &str) -> Json {
        let generator = &mut self.asked;
        match name {
            "ReleaseRequest" => ReleaseRequest::json_schema(generator),
            "StreamSettings" => StreamSettings::json_schema(generator),
            "UpdateRequest" => UpdateRequest::json_schema(generator),
            other => unreachable!("no type is known for the schema {other}"),
        }
        .to_value()
    }

    /// A message, by reference.
    pub(super) fn of_message(&mut self, message: &MessageDescriptor) -> Json {
        let name = message.name().to_owned();
        if !self.messages.contains_key(&name) {
            self.messages.insert(name.clone(), Json::Null);
            let properties: Map<String, Json> =
                message.fields().map(|field| (field.name().to_owned(), self.described(&field))).collect();
            let always: Vec<String> = message
                .fields()
                .filter(|field| !field.supports_presence())
                .map(|field| field.name().to_owned())
                .collect();
            let mut schema = json!({"type": "object", "required": always, "properties": properties});
            let said = comment(&message.parent_file(), message.path());
            if !said.is_empty() {
                schema["description"] = said.into();
            }
            self.messages.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#{PLACE}/{name}")})
    }

    /// A field, with what its file says of it.
    pub(super) fn described(&mut self, field: &FieldDescriptor) -> Json {
        let mut schema = self.of_field(field);
        let said = comment(&field.parent_message().parent_file(), field.path());
        if !said.is_empty() {
            schema["description"] = said.into();
        }
        schema
    }

    pub(super) fn of_field(&mut self, field: &FieldDescriptor) -> Json {
        if let Kind::Message(entry) = field.kind()
            && field.is_map()
        {
            return json!({"type": "object", "additionalProperties": self.of_field(&entry.map_entry_value_field())});
        }
        let one = match field.kind() {
            Kind::Message(message) => self.of_message(&message),
            _ => of_scalar(field),
        };
        if field.is_list() { json!({"type": "array", "items": one}) } else { one }
    }
}

/// A field that is a text, a number or a truth value.
pub(super) fn of_scalar(field: &FieldDescriptor) -> Json {
    match field.kind() {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Double | Kind::Float => json!({"type": "number"}),
        Kind::Uint32 | Kind::Uint64 => json!({"type": "integer", "minimum": 0}),
        Kind::String => json!({"type": "string"}),
        _ => json!({"type": "integer"}),
    }
}
