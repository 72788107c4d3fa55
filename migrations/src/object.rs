//! What a step makes in the database and what it removes, as far as its words say.

use crate::unit::{Migration, Statement, Step, Token};
use std::fmt;

/// A thing in the database that a step makes or removes. Names keep a qualifier that is written: `app.things`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Relation { kind: Relation, name: String },
    Column { table: String, name: String },
    Trigger { table: String, name: String },
    Constraint { table: String, name: String },
    Sync { table: String, new: String },
    Other { kind: &'static str, name: String },
}

/// What shares one space of names on PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    Table,
    View,
    Sequence,
    Index { table: Option<String> },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Relation { kind, name } => write!(f, "{} {name}", kind.word()),
            Object::Column { table, name } => write!(f, "column {table}.{name}"),
            Object::Trigger { table, name } => write!(f, "trigger {name} on {table}"),
            Object::Constraint { table, name } => write!(f, "constraint {name} on {table}"),
            Object::Sync { table, new } => write!(f, "sync of {table}.{new}"),
            Object::Other { kind, name } => write!(f, "{kind} {name}"),
        }
    }
}

impl Relation {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Relation::Table => "table",
            Relation::View => "view",
            Relation::Sequence => "sequence",
            Relation::Index { .. } => "index",
        }
    }
}

impl Object {
    fn table(name: &str) -> Object {
        Object::Relation { kind: Relation::Table, name: name.to_owned() }
    }

    /// Its own name, without a qualifier.
    pub(crate) fn name(&self) -> String {
        let name = match self {
            Object::Relation { name, .. }
            | Object::Column { name, .. }
            | Object::Trigger { name, .. }
            | Object::Constraint { name, .. }
            | Object::Other { name, .. } => name,
            Object::Sync { new, .. } => new,
        };
        name.rsplit('.').next().unwrap_or(name).to_owned()
    }

    /// The partitioned table that it is part of.
    fn part_of(&self) -> Option<&str> {
        match self {
            Object::Relation { kind: Relation::Index { table }, .. } => table.as_deref(),
            Object::Column { table, .. }
            | Object::Trigger { table, .. }
            | Object::Constraint { table, .. } => Some(table),
            Object::Sync { .. } | Object::Relation { .. } | Object::Other { .. } => None,
        }
    }

    /// Whether the two are one thing. A dropped index does not name its table.
    pub(crate) fn is(&self, other: &Object) -> bool {
        match (self, other) {
            (
                Object::Relation { kind: Relation::Index { .. }, name },
                Object::Relation { kind: Relation::Index { .. }, name: other },
            ) => name == other,
            // SQLite drops a trigger without naming its table.
            (Object::Trigger { table, name }, Object::Trigger { table: on, name: other }) => {
                name == other && (table == on || table.is_empty() || on.is_empty())
            }
            _ => self == other,
        }
    }

    /// Whether it goes where `removed` goes: the same thing, or a part of a table.
    pub(crate) fn goes_with(&self, removed: &Object) -> bool {
        self.is(removed) || self.part_of().is_some_and(|table| *removed == Object::table(table))
    }
}

/// What a step makes; none where its words do not say it. What only adds to something else (a grant, a comment, rows
/// of a new table) makes nothing.
pub(crate) fn made(step: &Step) -> Option<Vec<Object>> {
    Some(match step {
        Step::Sql(statements) => {
            let each: Option<Vec<Vec<Object>>> = statements.iter().map(made_by).collect();
            each?.concat()
        }
        Step::AddColumn(c) => {
            vec![Object::Column { table: c.table.as_str().to_owned(), name: c.column.as_str().to_owned() }]
        }
        Step::Sync(s) => {
            vec![Object::Sync { table: s.table.as_str().to_owned(), new: s.new.as_str().to_owned() }]
        }
        Step::Index(i) => {
            let kind = Relation::Index { table: Some(i.table.as_str().to_owned()) };
            vec![Object::Relation { kind, name: i.name.as_str().to_owned() }]
        }
        Step::Backfill(_) | Step::NotNull(_) | Step::DropColumn(_) | Step::DropSync(_) => Vec::new(),
    })
}

/// What a step removes, as far as its words say it.
pub(crate) fn removed(step: &Step) -> Vec<Object> {
    match step {
        Step::Sql(statements) => statements.iter().flat_map(removed_by).collect(),
        Step::DropColumn(c) => {
            vec![Object::Column { table: c.table.as_str().to_owned(), name: c.column.as_str().to_owned() }]
        }
        Step::DropSync(s) => {
            vec![Object::Sync { table: s.table.as_str().to_owned(), new: s.new.as_str().to_owned() }]
        }
        Step::AddColumn(_) | Step::Sync(_) | Step::Index(_) | Step::Backfill(_) | Step::NotNull(_) => {
            Vec::new()
        }
    }
}

/// What all of these steps make, as far as their words say it.
pub(crate) fn made_by_all<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Vec<Object> {
    steps.into_iter().filter_map(made).flatten().collect()
}

fn made_by(statement: &Statement) -> Option<Vec<Object>> {
    let mut words = Words { tokens: statement.tokens() };
    if words.takes(&["INSERT"]) || words.takes(&["COMMENT"]) || words.takes(&["GRANT"]) {
        return Some(Vec::new());
    }
    if words.takes(&["ALTER", "TABLE"]) {
        let (table, actions) = words.table_and_actions()?;
        let added = actions.into_iter().map(|mut action| {
            action.takes(&["ADD"]).then_some(())?;
            if action.takes(&["CONSTRAINT"]) {
                return Some(Object::Constraint { table: table.clone(), name: action.name()? });
            }
            action.takes(&["COLUMN"]);
            action.skip_if_exists();
            Some(Object::Column { table: table.clone(), name: action.name()? })
        });
        return added.collect();
    }
    words.takes(&["CREATE"]).then_some(())?;
    words.takes(&["UNIQUE"]);
    let kind = words.kind()?;
    words.skip_if_exists();
    // An index may go without a name: the database then makes one up.
    let named = !words.tokens.first()?.is("ON");
    let name = words.name().filter(|_| named)?;
    Some(vec![words.object(kind, name)])
}

fn removed_by(statement: &Statement) -> Vec<Object> {
    let mut words = Words { tokens: statement.tokens() };
    if words.takes(&["ALTER", "TABLE"]) {
        let Some((table, actions)) = words.table_and_actions() else { return Vec::new() };
        let gone = actions.into_iter().filter_map(|mut action| {
            action.takes(&["DROP"]).then_some(())?;
            let constraint = action.takes(&["CONSTRAINT"]);
            action.takes(&["COLUMN"]);
            action.skip_if_exists();
            let (table, name) = (table.clone(), action.name()?);
            Some(if constraint { Object::Constraint { table, name } } else { Object::Column { table, name } })
        });
        return gone.collect();
    }
    if !words.takes(&["DROP"]) {
        return Vec::new();
    }
    let Some(kind) = words.kind() else { return Vec::new() };
    words.takes(&["CONCURRENTLY"]);
    words.skip_if_exists();
    let mut gone = Vec::new();
    while let Some(name) = words.name() {
        gone.push(words.object(kind, name));
        words.skip_parentheses();
        if !words.takes_mark(',') {
            break;
        }
    }
    gone
}

/// The tokens of a statement, from the left.
struct Words<'a> {
    tokens: &'a [Token],
}

impl<'a> Words<'a> {
    fn takes(&mut self, words: &[&str]) -> bool {
        let there = words.len() <= self.tokens.len() && words.iter().zip(self.tokens).all(|(w, t)| t.is(w));
        if there {
            self.tokens = &self.tokens[words.len()..];
        }
        there
    }

    fn takes_mark(&mut self, mark: char) -> bool {
        let there = self.tokens.first() == Some(&Token::Mark(mark));
        if there {
            self.tokens = &self.tokens[1..];
        }
        there
    }

    fn skip_if_exists(&mut self) {
        let _ = self.takes(&["IF", "NOT", "EXISTS"]) || self.takes(&["IF", "EXISTS"]);
    }

    fn skip_parentheses(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.first() {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ if depth == 0 => return,
                _ => {}
            }
            self.tokens = &self.tokens[1..];
        }
    }

    /// A name, with its qualifier.
    fn name(&mut self) -> Option<String> {
        let (name, rest) = crate::unit::qualified(self.tokens)?;
        self.tokens = rest;
        Some(name)
    }

    fn kind(&mut self) -> Option<&'static str> {
        const KINDS: [&str; 8] =
            ["TABLE", "VIEW", "SEQUENCE", "INDEX", "TRIGGER", "FUNCTION", "TYPE", "SCHEMA"];
        KINDS.into_iter().find(|kind| self.takes(&[kind]))
    }

    /// An object whose name was just taken.
    fn object(&self, kind: &'static str, name: String) -> Object {
        let on = || {
            let at = self.tokens.iter().position(|t| t.is("ON"))?;
            let mut after = Words { tokens: &self.tokens[at + 1..] };
            after.takes(&["ONLY"]);
            after.name()
        };
        let kind = match kind {
            "TABLE" => Relation::Table,
            "VIEW" => Relation::View,
            "SEQUENCE" => Relation::Sequence,
            "INDEX" => Relation::Index { table: on() },
            "TRIGGER" => return Object::Trigger { table: on().unwrap_or_default(), name },
            "FUNCTION" => return Object::Other { kind: "function", name },
            "TYPE" => return Object::Other { kind: "type", name },
            _ => return Object::Other { kind: "schema", name },
        };
        Object::Relation { kind, name }
    }

    fn table_and_actions(&mut self) -> Option<(String, Vec<Words<'a>>)> {
        self.skip_if_exists();
        self.takes(&["ONLY"]);
        let table = self.name()?;
        let actions = crate::unit::split_top(self.tokens).into_iter().map(|tokens| Words { tokens });
        Some((table, actions.collect()))
    }
}

/// The objects of all steps of a migration's expand and migrate on this engine.
pub(crate) fn of_migration(migration: &Migration, dialect: crate::database::Dialect) -> Vec<Object> {
    use crate::unit::Phase;
    let steps = |phase| migration.steps(phase, dialect);
    made_by_all(steps(Phase::Expand).iter().chain(steps(Phase::Migrate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(objects: Vec<Object>) -> Vec<String> {
        objects.iter().map(Object::to_string).collect()
    }

    fn makes(sql: &str) -> Option<Vec<String>> {
        made(&Step::Sql(Statement::script(sql).unwrap())).map(shown)
    }

    fn removes(sql: &str) -> Vec<String> {
        shown(removed(&Step::Sql(Statement::script(sql).unwrap())))
    }

    #[test]
    fn created_object_is_named() {
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(makes("CREATE TABLE IF NOT EXISTS \"things\" (id int)"), one("table things"));
        assert_eq!(makes("CREATE TABLE app.things (id int)"), one("table app.things"));
        assert_eq!(makes("CREATE UNIQUE INDEX i ON things (id)"), one("index i"));
        assert_eq!(makes("CREATE INDEX ON things (id)"), None, "the database makes up its name");
        assert_eq!(
            makes("CREATE TRIGGER t AFTER INSERT ON things BEGIN SELECT 1; END"),
            one("trigger t on things")
        );
        assert_eq!(makes("ALTER TABLE ONLY things ADD COLUMN a text, ADD b int DEFAULT 1").unwrap().len(), 2);
        assert_eq!(
            makes("ALTER TABLE things ADD CONSTRAINT c CHECK (a > 0) NOT VALID"),
            one("constraint c on things")
        );
        assert_eq!(makes("GRANT SELECT ON things TO bob; COMMENT ON TABLE things IS 'x'"), Some(vec![]));
    }

    #[test]
    fn dropped_object_is_named() {
        assert_eq!(removes("DROP TABLE IF EXISTS a, app.b"), ["table a", "table app.b"]);
        assert_eq!(removes("DROP FUNCTION IF EXISTS f(int, text), g()"), ["function f", "function g"]);
        assert_eq!(removes("DROP TRIGGER IF EXISTS t ON things"), ["trigger t on things"]);
        assert_eq!(
            removes("ALTER TABLE things DROP COLUMN IF EXISTS a, DROP CONSTRAINT c"),
            ["column things.a", "constraint c on things"]
        );
    }

    #[test]
    fn parts_go_with_their_table() {
        let table = Object::table("things");
        let column = Object::Column { table: "things".into(), name: "a".into() };
        assert!(column.goes_with(&table) && !table.goes_with(&column));
        let index = |table: Option<&str>| Object::Relation {
            kind: Relation::Index { table: table.map(str::to_owned) },
            name: "i".into(),
        };
        assert!(index(Some("things")).is(&index(None)) && index(Some("things")).goes_with(&table));
    }
}
