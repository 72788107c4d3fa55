//! Expand only adds: the forms that an old program cannot notice.

use super::{Broken, alter_actions, begins, changes_rows};
use crate::database::Dialect;
use crate::finding::Rule;
use crate::unit::{AddColumn, Migration, Phase, Statement, Step, Token};
use std::collections::BTreeSet;

/// Statements that add something new beside what is there.
const ADDS: [&[&str]; 9] = [
    &["CREATE", "TABLE"],
    &["CREATE", "SEQUENCE"],
    &["CREATE", "TYPE"],
    &["CREATE", "SCHEMA"],
    &["CREATE", "VIEW"],
    &["CREATE", "FUNCTION"],
    &["CREATE", "TRIGGER"],
    &["COMMENT", "ON"],
    &["GRANT"],
];

const ALLOWED: &str = "create table, sequence, type, schema, view, function, trigger; alter table add column (nullable \
                       or with a constant default) or add constraint … not valid; grant; comment; insert into a \
                       table that this expand creates";

/// What breaks the rule in one statement of expand.
pub(super) fn broken(created: &BTreeSet<String>, statement: &Statement) -> Option<Broken> {
    let tokens = statement.tokens();
    let found = statement.first_line();
    if changes_rows(tokens) {
        let allowed = "a backfill step in migrate, which changes rows in batches";
        return Some((Rule::WholeTable, found, allowed.into()));
    }
    let own_table = statement.table().is_some_and(|t| created.contains(&t));
    if begins(tokens, &["CREATE", "INDEX"]) || begins(tokens, &["CREATE", "UNIQUE", "INDEX"]) {
        let allowed = "an index step, which does not stop writers of a table that is in use";
        return (!own_table).then(|| (Rule::SafeForm, found, allowed.into()));
    }
    if begins(tokens, &["INSERT", "INTO"]) {
        let into = tokens.get(2).and_then(Token::name);
        let fresh = into.is_some_and(|t| created.contains(&t));
        return (!fresh).then(|| (Rule::ExpandAdds, found, ALLOWED.into()));
    }
    if begins(tokens, &["CREATE", "TABLE"])
        && tokens.iter().any(|t| t.is("AS"))
        && tokens.iter().any(|t| t.is("SELECT"))
    {
        let allowed = "an empty table, and a backfill step in migrate";
        return Some((Rule::WholeTable, found, allowed.into()));
    }
    if ADDS.iter().any(|form| begins(tokens, form)) {
        return None;
    }
    let Some(actions) = alter_actions(tokens) else {
        return Some((Rule::ExpandAdds, found, ALLOWED.into()));
    };
    let bad =
        actions.into_iter().find_map(|action| action_broken(action).map(|why| (Rule::ExpandAdds, why)))?;
    Some((bad.0, format!("{found} ({})", bad.1), ALLOWED.into()))
}

/// What breaks the rule in a typed new column.
pub(super) fn column(column: &AddColumn) -> Option<Broken> {
    let text = definition(column);
    let refuse = |why: String| {
        let found = format!("{} {text} ({why})", column.column.as_str());
        Some((Rule::ExpandAdds, found, "a type, and a constant default or none".into()))
    };
    match Statement::single(&text) {
        Err(why) => refuse(why),
        Ok(parsed) if split_commas(parsed.tokens()) => refuse("a second column".into()),
        Ok(parsed) => definition_broken(parsed.tokens()).map_or_else(|| None, |why| refuse(why.to_owned())),
    }
}

fn definition(column: &AddColumn) -> String {
    match &column.default {
        Some(default) => format!("{} DEFAULT {default}", column.kind),
        None => column.kind.clone(),
    }
}

/// A new column whose default goes on after a cast, such as `0::int + random()`: it may be computed for each row.
pub(super) fn computed_default(step: &Step) -> Option<Broken> {
    let computes = |definition: &[Token]| {
        let value = default_value(definition).unwrap_or_default();
        after_literal(&value).is_some_and(|rest| !only_cast(rest))
    };
    let found = match step {
        Step::AddColumn(column) => {
            let text = definition(column);
            let parsed = Statement::single(&text).ok()?;
            computes(parsed.tokens()).then(|| format!("{} {text}", column.column.as_str()))
        }
        Step::Sql(statements) => {
            let adds = |action: &[Token]| begins(action, &["ADD"]) && computes(action);
            let mut all = statements.iter();
            all.find(|s| alter_actions(s.tokens()).is_some_and(|actions| actions.into_iter().any(adds)))
                .map(Statement::first_line)
        }
        _ => None,
    };
    let allowed = "a constant default, maybe cast, or none: any other default may rewrite the table";
    found.map(|found| (Rule::ExpandAdds, format!("`{found}`, with more after a cast"), allowed.into()))
}

fn split_commas(tokens: &[Token]) -> bool {
    super::split_top(tokens).len() > 1
}

/// The tables that expand creates.
pub(super) fn created_tables(migration: &Migration, dialect: Dialect) -> BTreeSet<String> {
    let statements = migration.steps(Phase::Expand, dialect).iter().flat_map(|step| match step {
        Step::Sql(statements) => statements.as_slice(),
        _ => &[],
    });
    statements.filter(|s| begins(s.tokens(), &["CREATE", "TABLE"])).filter_map(Statement::table).collect()
}

/// One action of an `ALTER TABLE`.
fn action_broken(action: &[Token]) -> Option<&'static str> {
    if begins(action, &["ADD", "CONSTRAINT"]) {
        let late = action.windows(2).any(|w| w[0].is("NOT") && w[1].is("VALID"));
        return (!late).then_some("a constraint without NOT VALID reads the whole table under a lock");
    }
    if !begins(action, &["ADD"]) {
        return Some("it does not add");
    }
    let table_level = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "EXCLUDE"];
    if action.get(1).is_some_and(|t| table_level.iter().any(|w| t.is(w))) {
        return Some("a constraint on rows that are there");
    }
    let mut at = 1;
    while action.get(at).is_some_and(|t| ["COLUMN", "IF", "NOT", "EXISTS"].iter().any(|w| t.is(w))) {
        at += 1;
    }
    // The column's name, then its definition.
    definition_broken(action.get(at + 1..).unwrap_or_default())
}

/// The definition of a new column, after its name.
fn definition_broken(definition: &[Token]) -> Option<&'static str> {
    let has = |word: &str| definition.iter().any(|t| t.is(word));
    let volatile = ["SERIAL", "BIGSERIAL", "SMALLSERIAL", "GENERATED"];
    if definition.is_empty() {
        return Some("no type");
    }
    if volatile.iter().any(|w| has(w)) {
        return Some("a computed column rewrites the table");
    }
    if ["PRIMARY", "UNIQUE", "REFERENCES", "CHECK"].iter().any(|w| has(w)) {
        return Some("a constraint on rows that are there");
    }
    let not_null = definition.windows(2).any(|w| w[0].is("NOT") && w[1].is("NULL"));
    match default_value(definition) {
        None if not_null => Some("not null without a default: the old version's inserts would fail"),
        None => None,
        Some(value) => (!constant(&value)).then_some("a default that is no constant rewrites the table"),
    }
}

fn default_value(definition: &[Token]) -> Option<Vec<&Token>> {
    let at = definition.iter().position(|t| t.is("DEFAULT"))?;
    Some(definition[at + 1..].iter().take_while(|t| !t.is("NOT")).collect())
}

/// A literal, maybe signed, maybe cast. What is written after the type of a cast is not asked here: files ran with it.
fn constant(value: &[&Token]) -> bool {
    let cast = |rest: &[&Token]| matches!(rest, [Token::Mark(':'), Token::Mark(':'), Token::Word(_), ..]);
    after_literal(value).is_some_and(|rest| rest.is_empty() || cast(rest))
}

/// What follows a literal, which may be signed; none where the value does not begin with one.
fn after_literal<'v, 't>(value: &'v [&'t Token]) -> Option<&'v [&'t Token]> {
    let literal = |t: &&Token| {
        matches!(t, Token::Text(_) | Token::Number(_))
            || ["TRUE", "FALSE", "NULL", "CURRENT_TIMESTAMP"].iter().any(|w| t.is(w))
    };
    match value {
        [Token::Mark('-' | '+'), Token::Number(_), rest @ ..] => Some(rest),
        [first, rest @ ..] if literal(first) => Some(rest),
        _ => None,
    }
}

/// Whether a literal is followed by casts alone, and by constraints of the column.
fn only_cast(rest: &[&Token]) -> bool {
    const WORDS: [&str; 9] =
        ["PRECISION", "VARYING", "WITH", "WITHOUT", "TIME", "ZONE", "NULL", "COLLATE", "CONSTRAINT"];
    let before_name =
        |t: &Token| matches!(t, Token::Mark(':' | '.')) || t.is("COLLATE") || t.is("CONSTRAINT");
    rest.iter().enumerate().all(|(at, token)| match token {
        Token::Mark(mark) => ":.,()[]".contains(*mark),
        Token::Number(_) => true,
        Token::Text(_) => false,
        Token::Word(_) | Token::Quoted(_) => {
            WORDS.iter().any(|word| token.is(word)) || (at > 0 && before_name(rest[at - 1]))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_casts_may_follow_a_constant_default() {
        let step = |default: &str| {
            let sql = format!("ALTER TABLE t ADD COLUMN a int DEFAULT {default}");
            Step::Sql(Statement::script(&sql).unwrap())
        };
        for fine in [
            "0",
            "-1::int NOT NULL",
            "'x'::character varying(20)",
            "'{}'::text[]",
            "'now'::timestamp(3) with time zone",
            "'a'::app.\"Kind\" CONSTRAINT c NOT NULL",
            "'a'::text COLLATE \"C\", ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u ON DELETE SET DEFAULT NOT VALID",
        ] {
            assert!(computed_default(&step(fine)).is_none(), "{fine}");
        }
        for bad in [
            "0::int + random()",
            "'a'::text || f('b')",
            "0::numeric(3) * nextval('s')",
            "0::int IS DISTINCT FROM f(1)",
            "'{}'::int[] OPERATOR(app.+) f()",
        ] {
            assert!(computed_default(&step(bad)).is_some(), "{bad}");
            assert!(
                broken(&BTreeSet::new(), &statement(&step(bad))).is_none(),
                "a file that ran stays: {bad}"
            );
        }
        let typed = "table = 't'\ncolumn = 'a'\ntype = 'float8'\ndefault = \"0::float8 + random()\"";
        let typed: AddColumn = toml::from_str(typed).unwrap();
        assert!(column(&typed).is_none() && computed_default(&Step::AddColumn(typed)).is_some());
    }

    fn statement(step: &Step) -> Statement {
        let Step::Sql(statements) = step else { panic!("it is sql") };
        statements[0].clone()
    }
}
