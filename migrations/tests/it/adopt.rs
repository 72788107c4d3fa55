//! Expand makes what is not there yet, an undo takes back what was made, and what was there before is adopted.

on_both! { expand_refuses_an_object_that_is_present, index_that_is_present_is_not_taken_for_its_own, irreversible_steps_stay_and_run_once, undo_spares_steps_of_another_owner, unfinished_baseline_is_named_with_its_command, rows_after_the_fill_of_a_baseline_are_an_obstacle, adopted_baseline_survives_every_undo, adopted_expand_is_not_undone, adopt_refuses_what_is_in_progress_or_absent, steps_that_ask_if_something_exists_do_not_begin, what_has_no_undo_does_not_begin, begun_undo_is_an_obstacle_and_names_its_owner, what_contract_removes_first_is_no_obstacle, adopt_is_advised_only_where_it_is_granted }

mod story {
    use crate::support::*;
    use tidegate_migrations::{Adoption, Error, MigrationSet, Owner, Phase, PhaseState};

    const HEAD: &str = "id = '0001_things'\nversion = 1\nold_reads_migrated = false\n";
    const UNDO: &str = "[undo]\nsteps = [{ sql = 'DROP TABLE IF EXISTS things' }]\n";
    const COLOUR: &str = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n\
        [expand]\nsteps = [{ add_column = { table = 'things', column = 'colour', type = 'text' } }]\n\
        [migrate]\nrequires = 'expanded'\nsteps = [{ index = { name = 'things_shade', table = 'things', on = ['shade'] } }]\n\
        [contract]\nsteps = [{ sql = 'DROP TABLE former' }]\n\
        [undo]\nsteps = [{ sql = 'DROP INDEX IF EXISTS things_shade' }, \
        { drop_column = { table = 'things', column = 'colour' } }]\n";

    fn things(create: &str) -> String {
        format!(
            "{HEAD}[expand]\nsteps = [{{ sql = '{create} things (id INTEGER PRIMARY KEY, shade TEXT)' }}]\n{UNDO}"
        )
    }

    fn set(first: &str, second: &str) -> MigrationSet {
        set_in(written(&[("0001_things.toml", first), ("0002_colour.toml", second)]).path())
    }

    fn both() -> MigrationSet {
        set(&things("CREATE TABLE"), COLOUR)
    }

    fn hop(all: &MigrationSet) -> MigrationSet {
        all.between(1, 2).owned_by(Owner::upgrade("u1"))
    }

    fn adoption() -> Adoption {
        Adoption { expand_only: false, keep_old: false, who: "ada".into(), why: "it was there".into() }
    }

    /// A table that no migration made, with 50 rows.
    async fn there(database: &Database) -> Client {
        let mut client = database.client().await;
        client
            .run(
                "CREATE TABLE things (id INTEGER PRIMARY KEY, shade TEXT); CREATE TABLE former (id INTEGER); \
                 INSERT INTO things (id, shade) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                 WHERE i < 50) SELECT i, 'x' FROM n",
            )
            .await;
        client
    }

    const COUNT: &str = "SELECT count(*) FROM things";

    pub(super) async fn expand_refuses_an_object_that_is_present(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let first = both().up_to(1);
        let error = engine.expand(&first, &term(1), &watch, &cancel).await.unwrap_err();
        let said = error.to_string();
        assert!(matches!(&error, Error::Present { .. }) && !error.retryable(), "{said}");
        assert!(said.contains("table things is present"), "{said}");
        assert!(said.contains("tidegate schema adopt --migration 0001_things"), "{said}");
        engine.undo(&first, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(client.number(COUNT).await, 50);
        client.run("ALTER TABLE things ADD COLUMN colour TEXT").await;
        let error = engine.expand(&hop(&both()), &term(1), &watch, &cancel).await.unwrap_err();
        assert!(error.to_string().contains("column things.colour is present"), "{error}");
        engine.undo(&hop(&both()), &term(1), &watch, &cancel).await.unwrap();
        client.run("SELECT colour FROM things").await;
    }

    pub(super) async fn index_that_is_present_is_not_taken_for_its_own(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let all = both();
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        let names_it = |said: &str| {
            assert!(said.contains("index things_shade is present"), "{said}");
            assert!(said.contains("rename or remove it") && !said.contains("adopt"), "{said}");
        };
        // Before anything begins, although it is a step of migrate.
        client.run("CREATE INDEX things_shade ON things (id)").await;
        names_it(&engine.obstacles(&hop(&all)).await.unwrap().join("; "));
        let error = engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap_err();
        names_it(&error.to_string());
        client.run("DROP INDEX things_shade").await;
        engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        // And where it came meanwhile.
        client.run("CREATE INDEX things_shade ON things (id)").await;
        let error = engine.migrate(&hop(&all), &term(1), &watch, &cancel).await.unwrap_err();
        names_it(&error.to_string());
        names_it(&engine.obstacles(&hop(&all)).await.unwrap().join("; "));
        client.run("DROP INDEX things_shade").await;
        engine.migrate(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn what_contract_removes_first_is_no_obstacle(database: Database) {
        let mut client = there(&database).await;
        client.run("CREATE INDEX things_shade ON things (id)").await;
        let text = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n[contract]\nsteps = [\
            { sql = 'DROP INDEX things_shade' }, { index = { name = 'things_shade', table = 'things', on = ['shade'] } }]\n";
        let engine = database.engine().await;
        let upgrade = set(&things("CREATE TABLE"), text).between(1, 2);
        let (watch, cancel) = (watcher(), patient());
        engine.adopt(&both().up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        assert_eq!(engine.obstacles(&upgrade).await.unwrap(), Vec::<String>::new());
        engine.expand(&upgrade, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&upgrade, &term(1), &watch, &cancel).await.unwrap();
        engine.contract(&upgrade, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
    }

    pub(super) async fn adopt_is_advised_only_where_it_is_granted(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let text = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n[expand]\nsteps = [\
            { add_column = { table = 'things', column = 'colour', type = 'text' } }, \
            { add_column = { table = 'things', column = 'size', type = 'integer' } }]\n[undo]\nsteps = [\
            { drop_column = { table = 'things', column = 'size' } }, \
            { drop_column = { table = 'things', column = 'colour' } }]\n";
        let all = set(&things("CREATE TABLE"), text);
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        let own = all.between(1, 2);
        let part = Adoption { expand_only: true, ..adoption() };
        client.run("ALTER TABLE things ADD COLUMN colour TEXT").await;
        let error = engine.expand(&own, &term(1), &watch, &cancel).await.unwrap_err().to_string();
        assert!(error.contains("rename or remove it") && !error.contains("adopt"), "one of two: {error}");
        engine.adopt(&own, &term(1), &part, &cancel).await.expect_err("a column is missing");
        client.run("ALTER TABLE things ADD COLUMN size INTEGER").await;
        let error = engine.expand(&own, &term(1), &watch, &cancel).await.unwrap_err().to_string();
        assert!(
            error.contains("tidegate schema adopt --migration 0002_colour --migrations DIR --why TEXT"),
            "{error}"
        );
        engine.adopt(&own, &term(1), &part, &cancel).await.unwrap();
        engine.expand(&own, &term(1), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn irreversible_steps_stay_and_run_once(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let text = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n[expand]\nsteps = [\
            { sql = 'CREATE TABLE kept (id INTEGER)', irreversible = true }, \
            { add_column = { table = 'things', column = 'colour', type = 'text' } }]\n\
            [undo]\nsteps = [{ drop_column = { table = 'things', column = 'colour' } }]\n";
        let all = set(&things("CREATE TABLE"), text);
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        let upgrade = hop(&all);
        for _ in 0..2 {
            engine.expand(&upgrade, &term(1), &watch, &cancel).await.unwrap();
            let status = engine.status(&upgrade).await.unwrap().migrations.pop().unwrap();
            assert_eq!(status.left, ["`CREATE TABLE kept (id INTEGER)` of 0002_colour (irreversible)"]);
            engine.undo(&upgrade, &term(1), &watch, &cancel).await.unwrap();
            client.run("SELECT id FROM kept").await;
            assert!(client.try_run("SELECT colour FROM things").await.is_err());
            let status = engine.status(&upgrade).await.unwrap().migrations.pop().unwrap();
            assert_eq!((status.expand, status.ours, status.left.len()), (PhaseState::NotStarted, false, 1));
            client.run("INSERT INTO kept VALUES (1)").await;
        }
        assert_eq!(client.number("SELECT count(*) FROM kept").await, 2, "it was made once");
    }

    pub(super) async fn undo_spares_steps_of_another_owner(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let text = |second: &str| {
            format!(
                "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n[expand]\nsteps = [\
                 {{ add_column = {{ table = 'things', column = 'colour', type = 'text' }} }}, \
                 {{ sql = 'CREATE VIEW seen AS SELECT id FROM {second}' }}]\n[undo]\nsteps = [\
                 {{ sql = 'DROP VIEW IF EXISTS seen' }}, {{ drop_column = {{ table = 'things', column = 'colour' }} }}]\n"
            )
        };
        let all = set(&things("CREATE TABLE"), &text("other"));
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        if database.dialect() == tidegate_migrations::Dialect::Sqlite {
            // There a whole expand is one transaction, and two owners cannot share it: the former form of the row.
            client.run("CREATE TABLE other (id INTEGER)").await;
            engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
            client.run("UPDATE tidegate_history SET owner = 'by hand' WHERE step = 0").await;
        } else {
            let by_hand = engine.expand(&all.between(1, 2), &term(1), &watch, &cancel).await;
            assert!(by_hand.is_err(), "its second step fails");
            client.run("CREATE TABLE other (id INTEGER)").await;
            engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        }
        client.run("SELECT id FROM seen").await;
        engine.undo(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT id FROM seen").await.is_err(), "its own step");
        client.run("SELECT colour FROM things").await;
        let status = engine.status(&hop(&all)).await.unwrap().migrations.pop().unwrap();
        assert_eq!(status.left, ["`add column things.colour` of 0002_colour (expanded by by hand)"]);
        engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&all.between(1, 2), &term(1), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT colour FROM things").await.is_err(), "its owner takes it back");
        assert_eq!(client.number(COUNT).await, 50);
    }

    const FILLED: &str = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n\
        [expand]\nsteps = [{ add_column = { table = 'things', column = 'colour', type = 'text' } }]\n\
        [migrate]\nrequires = 'expanded'\nsteps = [{ backfill = { table = 'things', key = 'id', where = 'colour IS NULL', \
        set = { colour = \"'x'\" } } }]\nverify = 'SELECT count(*) FROM things WHERE colour IS NULL'\n\
        [undo]\nsteps = [{ drop_column = { table = 'things', column = 'colour' } }]\n";

    /// No upgrade has ended with it: none has filled what an old program wrote last.
    pub(super) async fn rows_after_the_fill_of_a_baseline_are_an_obstacle(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let all = set(&things("CREATE TABLE"), FILLED);
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        let next = all.between(2, 3);
        assert_eq!(engine.obstacles(&next).await.unwrap(), Vec::<String>::new());
        client.run("INSERT INTO things (id, shade) VALUES (51, 'x')").await;
        let found = engine.obstacles(&next).await.unwrap();
        assert!(found.len() == 1 && found[0].contains("came after its fill (1)"), "{found:?}");
        assert!(
            found[0].contains("`tidegate schema migrate --to 2 --migrations DIR` fills them"),
            "{found:?}"
        );
        engine.migrate(&all.up_to(2), &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM things WHERE colour = 'x'").await, 51);
        assert_eq!(engine.obstacles(&next).await.unwrap(), Vec::<String>::new());
        engine.contract(&hop(&all), &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
        client.run("INSERT INTO things (id, shade) VALUES (52, 'x')").await;
        assert_eq!(engine.obstacles(&next).await.unwrap(), Vec::<String>::new(), "it ended");
    }

    pub(super) async fn unfinished_baseline_is_named_with_its_command(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let (all, upgrade) = (both(), hop(&both()));
        let found = engine.obstacles(&upgrade).await.unwrap();
        assert!(found.len() == 1 && found[0].contains("tidegate schema adopt --to 1"), "{found:?}");
        assert!(client.try_run("SELECT 1 FROM tidegate_schema").await.is_err(), "only looked at");
        client.run("DROP TABLE things").await;
        engine.expand(&all.up_to(1), &term(1), &watch, &cancel).await.unwrap();
        let found = engine.obstacles(&upgrade).await.unwrap();
        assert!(found.len() == 1 && found[0].contains("tidegate schema migrate --to 1"), "{found:?}");
        engine.migrate(&all.up_to(1), &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(engine.obstacles(&upgrade).await.unwrap(), Vec::<String>::new());
        engine.expand(&upgrade, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(engine.obstacles(&upgrade).await.unwrap(), Vec::<String>::new(), "it has begun");
        engine.migrate(&upgrade, &term(1), &watch, &cancel).await.unwrap();
        let found = engine.obstacles(&all.between(2, 3)).await.unwrap();
        assert!(found.len() == 1 && found[0].contains("--keep-old"), "{found:?}");
        let plain = engine.adopt(&all.up_to(2), &term(1), &adoption(), &cancel).await.unwrap_err();
        assert!(plain.to_string().contains("--keep-old"), "{plain}");
        let keeps = Adoption { keep_old: true, ..adoption() };
        engine.adopt(&all.up_to(2), &term(1), &keeps, &cancel).await.unwrap();
        assert_eq!(engine.obstacles(&all.between(2, 3)).await.unwrap(), Vec::<String>::new());
        client.run("SELECT id FROM former").await;
    }

    pub(super) async fn adopted_baseline_survives_every_undo(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        // As it may be in files that ran elsewhere: adopting does not run it.
        let all = set(&things("CREATE TABLE IF NOT EXISTS"), COLOUR);
        let would = engine.adoptable(&all.up_to(1), &adoption()).await.unwrap();
        assert_eq!((would.len(), would[0].phases.len()), (1, 3));
        assert!(client.try_run("SELECT 1 FROM tidegate_schema").await.is_err(), "only looked at");
        assert_eq!(engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap(), would);
        let notes = client.texts("SELECT DISTINCT note FROM tidegate_history").await;
        assert!(
            notes.len() == 1 && notes[0].contains("ada") && notes[0].contains("it was there"),
            "{notes:?}"
        );
        assert!(engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap().is_empty());
        assert_eq!(engine.obstacles(&hop(&all)).await.unwrap(), Vec::<String>::new());
        assert!(hop(&all).old_reads_migrated(), "that the baseline is irreversible forbids nothing");
        engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&all.up_to(1), &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(client.number(COUNT).await, 50);
    }

    pub(super) async fn adopted_expand_is_not_undone(database: Database) {
        let mut client = there(&database).await;
        client.run("ALTER TABLE things ADD COLUMN colour TEXT").await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let part = Adoption { expand_only: true, ..adoption() };
        let all = both();
        engine.adopt(&all.between(1, 2), &term(1), &part, &cancel).await.unwrap();
        assert_eq!(engine.status(&hop(&all)).await.unwrap().next, Some(Phase::Migrate));
        engine.migrate(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&all.between(1, 2), &term(1), &watch, &cancel).await.unwrap();
        client.run("SELECT colour FROM things").await;
    }

    pub(super) async fn adopt_refuses_what_is_in_progress_or_absent(database: Database) {
        let client = there(&database).await;
        client.close().await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let all = both();
        let absent = engine.adopt(&all, &term(1), &adoption(), &cancel).await.unwrap_err();
        assert!(matches!(&absent, Error::NotAsAdopted { .. }), "{absent}");
        assert!(absent.to_string().contains("colour is not in the database"), "{absent}");
        assert_eq!(engine.status(&all).await.unwrap().next, Some(Phase::Expand), "nothing is marked in part");
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        engine.expand(&hop(&all), &term(1), &watch, &cancel).await.unwrap();
        let begun = engine.adopt(&all.between(1, 2), &term(1), &adoption(), &cancel).await.unwrap_err();
        assert!(matches!(&begun, Error::Order { .. }), "{begun}");
        assert!(begun.to_string().contains("tidegate schema migrate"), "{begun}");
    }

    pub(super) async fn begun_undo_is_an_obstacle_and_names_its_owner(database: Database) {
        let mut client = there(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let all = both();
        engine.adopt(&all.up_to(1), &term(1), &adoption(), &cancel).await.unwrap();
        let by_hand = all.between(1, 2);
        let made_before = by_hand.clone().owned_by(Owner::by_hand().with_unrecorded());
        let ends = |made_by: &str| {
            format!(
                "tidegate schema undo --migration 0002_colour{made_by} --nothing-new-runs --migrations DIR"
            )
        };
        let has_no_owner =
            "UPDATE tidegate_history SET owner = NULL WHERE phase = 'expand' AND migration = '0002_colour'";
        for (makes, forgets, undoes, made_by) in [
            (hop(&all), "SELECT 1", hop(&all), " --made-by u1"),
            (by_hand.clone(), "SELECT 1", by_hand.clone(), ""),
            (hop(&all), has_no_owner, made_before, " --made-by unrecorded"),
        ] {
            engine.expand(&makes, &term(1), &watch, &cancel).await.unwrap();
            client.run(forgets).await;
            client.run("CREATE VIEW colours AS SELECT colour FROM things").await;
            engine.undo(&undoes, &term(1), &watch, &cancel).await.expect_err("the view needs the column");
            let other = all.between(1, 2).owned_by(Owner::upgrade("u2"));
            let found = engine.obstacles(&other).await.unwrap();
            assert!(found.len() == 1 && found[0].contains(&ends(made_by)), "{found:?}");
            let below = engine.obstacles(&all.between(2, 3)).await.unwrap();
            assert!(below.len() == 1 && below[0].contains(&ends(made_by)), "{below:?}");
            let refused = engine.undo(&other, &term(1), &watch, &cancel).await.unwrap_err();
            assert!(refused.to_string().contains(&ends(made_by)), "{refused}");
            client.run("DROP VIEW colours").await;
            engine.undo(&undoes, &term(1), &watch, &cancel).await.unwrap();
            assert_eq!(engine.obstacles(&other).await.unwrap(), Vec::<String>::new());
            assert!(client.try_run("SELECT colour FROM things").await.is_err());
        }
        assert_eq!(client.number(COUNT).await, 50);
    }

    /// What expand says of a file, and that it changed nothing.
    async fn refused(database: &Database, text: &str) -> String {
        let set = set_in(written(&[("0001_things.toml", text)]).path());
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let found = engine.obstacles(&set).await.unwrap();
        assert!(!found.is_empty(), "preflight finds it, too");
        let error = engine.expand(&set, &term(1), &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::Lint(_)), "{error}");
        assert_eq!(engine.status(&set).await.unwrap().migrations[0].expand, PhaseState::NotStarted);
        found.join("\n")
    }

    pub(super) async fn steps_that_ask_if_something_exists_do_not_begin(database: Database) {
        let mut client = database.client().await;
        let said = refused(&database, &things("CREATE TABLE IF NOT EXISTS")).await;
        assert!(said.contains("0001_things.toml, expand step 1"), "{said}");
        assert!(said.contains("IF NOT EXISTS in `CREATE TABLE IF NOT EXISTS things"), "{said}");
        assert!(said.contains("tidegate schema adopt"), "{said}");
        let contract = format!(
            "{}[contract]\nsteps = [{{ sql = 'DROP TABLE IF EXISTS former' }}]\n",
            things("CREATE TABLE")
        );
        let said = refused(&database, &contract).await;
        assert!(said.contains("contract step 1") && said.contains("IF EXISTS in"), "{said}");
        assert!(client.try_run(COUNT).await.is_err());
    }

    pub(super) async fn what_has_no_undo_does_not_begin(database: Database) {
        let of = |step: &str, undo: &str| {
            format!(
                "{HEAD}[expand]\nsteps = [{{ sql = 'CREATE TABLE things (id INTEGER PRIMARY KEY)' }}, {step}]\n\
                 [undo]\nsteps = [{undo}{{ sql = 'DROP TABLE IF EXISTS things' }}]\n"
            )
        };
        let said = refused(&database, &of("{ sql = 'CREATE TABLE more (id int)' }", "")).await;
        assert!(said.contains("expand step 2") && said.contains("table more without undo"), "{said}");
        assert!(said.contains("irreversible = true"), "{said}");
        let more = "{ sql = 'CREATE TABLE more (id int)', irreversible = true }";
        let said = refused(&database, &of(more, "{ sql = 'DROP TABLE IF EXISTS more' }, ")).await;
        assert!(said.contains("table more, which is irreversible and which undo removes"), "{said}");
        let said = refused(&database, &of("{ sql = 'GRANT SELECT ON other TO bob' }", "")).await;
        assert!(said.contains("`GRANT SELECT ON other TO bob` without undo"), "{said}");
        let said = refused(&database, &of(more, "{ sql = 'DROP VIEW IF EXISTS elsewhere' }, ")).await;
        assert!(said.contains("undo step 1") && said.contains("does not make"), "{said}");
        let parts = of("{ sql = 'CREATE INDEX i ON things (id)' }", "");
        let set = set_in(written(&[("0001_things.toml", &parts)]).path());
        let engine = database.engine().await;
        assert_eq!(engine.obstacles(&set).await.unwrap(), Vec::<String>::new(), "it goes with its table");
    }
}
