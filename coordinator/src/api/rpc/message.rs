//! The message of a call, from the path, the query and the body of a request. Nothing that was given is passed over:
//! a name that the message does not have, a name twice and a null are refused.

use super::super::given::Given;
use crate::operation::body;
use crate::problem::Problem;
use prost_reflect::{DeserializeOptions, DynamicMessage, FieldDescriptor, Kind};
use serde_json::{Map, Value as Json};
use tidegate_proto::verb::{Route, Verb, is_required, schema_of};

/// Reads the message of a call.
pub(super) fn read(
    verb: &Verb,
    route: &Route,
    path: Vec<(String, String)>,
    given: Given<Vec<(String, String)>>,
) -> Result<DynamicMessage, Problem> {
    let mut asked = Asked { verb, route, fields: Map::new() };
    let query = match route.has_body() {
        true => {
            let (query, text) = given.text()?;
            asked.take_body(&text)?;
            query
        }
        false => given.query()?,
    };
    for (name, value) in query {
        asked.take_query(&name, &value)?;
    }
    for (name, value) in path {
        asked.take_path(&name, &value)?;
    }
    asked.message()
}

struct Asked<'a> {
    verb: &'a Verb,
    route: &'a Route,
    fields: Map<String, Json>,
}

impl Asked<'_> {
    fn take_body(&mut self, text: &str) -> Result<(), Problem> {
        let refused =
            |why: String| Problem::invalid(format!("the body cannot be read: {why}; nothing was changed"));
        if let Some(field) = &self.route.body {
            let value = match field.kind() {
                Kind::String => Json::String(text.to_owned()),
                _ => body::json(text).map_err(|e| refused(e.to_string()))?,
            };
            self.fields.insert(field.name().to_owned(), value);
            return Ok(());
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let fields: Map<String, Json> = body::json(text).map_err(|e| refused(e.to_string()))?;
        for (name, value) in fields {
            let field = self.field(&name)?;
            let value = match (schema_of(&field), value) {
                (_, Json::Null) => return Err(refused(format!("{name} is null: leave it out instead"))),
                (Some(_), value) => Json::String(value.to_string()),
                (None, value) => value,
            };
            self.fields.insert(name, value);
        }
        Ok(())
    }

    fn take_query(&mut self, name: &str, text: &str) -> Result<(), Problem> {
        let field = self.field(name)?;
        let value = from_text(&field, text)?;
        match self.fields.get_mut(name) {
            Some(Json::Array(several)) if field.is_list() => several.push(value),
            Some(_) => return Err(Problem::invalid(format!("{name} is given twice; nothing was changed"))),
            None if field.is_list() => {
                self.fields.insert(name.to_owned(), Json::Array(vec![value]));
            }
            None => {
                self.fields.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    fn take_path(&mut self, name: &str, text: &str) -> Result<(), Problem> {
        let Some(field) = self.verb.method.input().get_field_by_name(name) else {
            return Err(Problem::internal(format!("the message has no field {name}")));
        };
        let value = match field.kind() {
            Kind::String => Json::String(text.to_owned()),
            _ => text.parse::<u64>().ok().filter(|number| *number > 0).map(Json::from).ok_or_else(|| {
                Problem::invalid(format!("{text:?} is not a {name}: a whole number from 1 on is allowed"))
            })?,
        };
        self.fields.insert(name.to_owned(), value);
        Ok(())
    }

    /// A field that may be given outside the path.
    fn field(&self, name: &str) -> Result<FieldDescriptor, Problem> {
        let known = self.verb.method.input().get_field_by_name(name);
        known.filter(|field| is_free(self.verb, self.route, field)).ok_or_else(|| {
            let free: Vec<String> =
                free(self.verb, self.route).map(|field| field.name().to_owned()).collect();
            let allowed = match free.is_empty() {
                true => "nothing is allowed here".to_owned(),
                false => format!("allowed are {}", free.join(", ")),
            };
            Problem::invalid(format!("unknown field `{name}`: {allowed}; nothing was changed"))
        })
    }

    fn message(self) -> Result<DynamicMessage, Problem> {
        let input = self.verb.method.input();
        for field in input.fields().filter(is_required) {
            if !self.fields.contains_key(field.name()) {
                let name = field.name();
                return Err(Problem::invalid(format!("the field `{name}` is missing; nothing was changed")));
            }
        }
        let strict = DeserializeOptions::new().deny_unknown_fields(true);
        DynamicMessage::deserialize_with_options(input, Json::Object(self.fields), &strict)
            .map_err(|e| Problem::invalid(format!("the request cannot be read: {e}; nothing was changed")))
    }
}

/// The fields that may be given in the query or the body of this route.
pub(in super::super) fn free<'a>(
    verb: &'a Verb,
    route: &'a Route,
) -> impl Iterator<Item = FieldDescriptor> + 'a {
    let fields: Vec<FieldDescriptor> = verb.method.input().fields().collect();
    fields.into_iter().filter(move |field| is_free(verb, route, field))
}

/// A field that is in the path of one route of a verb is accepted only in a path.
fn is_free(verb: &Verb, route: &Route, field: &FieldDescriptor) -> bool {
    let in_a_path = || verb.routes.iter().flat_map(Route::in_path).any(|name| name == field.name());
    let is_body = route.body.as_ref().is_some_and(|body| body == field);
    !is_body && !in_a_path()
}

fn from_text(field: &FieldDescriptor, text: &str) -> Result<Json, Problem> {
    let refused = |allowed: &str| {
        let name = field.name();
        Problem::invalid(format!("{name}={text:?} cannot be read: {allowed} is allowed; nothing was changed"))
    };
    match field.kind() {
        Kind::String => Ok(Json::String(text.to_owned())),
        Kind::Bool => text.parse().map(Json::Bool).map_err(|_| refused("true or false")),
        Kind::Double | Kind::Float => text.parse::<f64>().map(Json::from).map_err(|_| refused("a number")),
        Kind::Message(_) | Kind::Enum(_) | Kind::Bytes => Err(refused("nothing")),
        _ => text.parse::<u64>().map(Json::from).map_err(|_| refused("a whole number")),
    }
}
