//! An upgrade owns its own migrations: an undo takes what its owner expanded, and nothing else.

on_both! { undo_of_a_failed_upgrade_leaves_the_tables_that_were_there, undo_leaves_migrations_at_or_below_from, undo_leaves_what_was_expanded_by_hand, undo_leaves_what_an_earlier_upgrade_contracted, history_without_owners_gains_them_and_keeps_its_rows, unrecorded_rows_are_undone_only_for_their_upgrade, unrecorded_rows_that_asked_what_is_there_stay, pending_rows_are_those_of_own_migrations, migration_whose_undo_has_begun_is_not_expanded, contract_without_steps_is_undone_with_the_rest, empty_contract_is_final_beside_one_that_removed, rows_after_a_contract_without_steps_are_filled, upgrade_expands_nothing_over_an_unfilled_baseline, baseline_undone_in_an_upgrade_is_made_again, contract_by_hand_asks_the_baseline, contract_of_an_upgrade_finishes_its_baseline_first }

mod story {
    use crate::support::*;
    use tidegate_migrations::{Engine, Error, MigrationSet, Owner, PhaseState, RowCount};

    /// Version 1 makes the table, version 2 a column of it.
    const THINGS: &str = "id = '0001_things'\nversion = 1\nold_reads_migrated = true\n\
        [expand]\nsteps = [{ sql = 'CREATE TABLE things (id INTEGER PRIMARY KEY, shade TEXT)' }]\n\
        [undo]\nsteps = [{ sql = 'DROP TABLE IF EXISTS things' }]\n";
    const COLOUR: &str = "id = '0002_colour'\nversion = 2\nold_reads_migrated = true\n\
        [expand]\nsteps = [{ add_column = { table = 'things', column = 'colour', type = 'text' } }]\n\
        [migrate]\nrequires = 'expanded'\nsteps = [{ backfill = { table = 'things', key = 'id', \
        where = 'colour IS NULL', set = { colour = 'shade' } } }]\n\
        verify = 'SELECT count(*) FROM things WHERE colour IS NULL'\n\
        [contract]\nsteps = [{ drop_column = { table = 'things', column = 'shade' } }]\n\
        [undo]\nsteps = [{ drop_column = { table = 'things', column = 'colour' } }]\n";
    const SIZE: &str = "id = '0003_size'\nversion = 3\nold_reads_migrated = false\n\
        [expand]\nsteps = [{ add_column = { table = 'things', column = 'size', type = 'integer' } }]\n\
        [undo]\nsteps = [{ drop_column = { table = 'things', column = 'size' } }]\n";

    fn all() -> MigrationSet {
        let files =
            written(&[("0001_things.toml", THINGS), ("0002_colour.toml", COLOUR), ("0003_size.toml", SIZE)]);
        set_in(files.path())
    }

    fn hop(from: u32, to: u32, upgrade: &str) -> MigrationSet {
        all().between(from, to).owned_by(Owner::upgrade(upgrade))
    }

    const ROWS: &str = "INSERT INTO things (id, shade) WITH RECURSIVE n(i) AS \
         (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT i, 'x' FROM n";

    /// Version 1 as `tidegate schema expand|migrate --to 1` makes it, with 50 rows.
    async fn at_version_1(database: &Database) -> Client {
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let first = all().up_to(1);
        engine.expand(&first, &term(1), &watch, &cancel).await.unwrap();
        engine.migrate(&first, &term(1), &watch, &cancel).await.unwrap();
        let mut client = database.client().await;
        client.run(ROWS).await;
        client
    }

    pub(super) async fn undo_of_a_failed_upgrade_leaves_the_tables_that_were_there(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let upgrade = hop(1, 2, "u1");
        engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        engine.undo(&upgrade, &term(3), &watch, &cancel).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM things WHERE shade = 'x'").await, 50);
        assert!(client.try_run("SELECT colour FROM things").await.is_err());
        let status = engine.status(&upgrade).await.unwrap();
        let of = |id: &str| status.migrations.iter().find(|m| m.id == id).unwrap();
        assert_eq!((of("0001_things").own, of("0001_things").expand), (false, PhaseState::Done));
        assert!(of("0001_things").is_finished(), "its contract has no steps");
        assert_eq!(of("0002_colour").expand, PhaseState::NotStarted);
    }

    pub(super) async fn undo_leaves_migrations_at_or_below_from(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let upper = all().between(1, 2);
        engine.expand(&upper, &term(1), &watch, &cancel).await.unwrap();
        engine.undo(&upper, &term(1), &watch, &cancel).await.unwrap();
        assert_eq!(
            client.number("SELECT count(*) FROM things").await,
            50,
            "made by the same owner, but below"
        );
        engine.undo(&all().up_to(1), &term(1), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT id FROM things").await.is_err(), "named by its range, it is undone");
    }

    pub(super) async fn undo_leaves_what_was_expanded_by_hand(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        engine.expand(&all().between(1, 2), &term(1), &watch, &cancel).await.unwrap();
        let upgrade = hop(1, 2, "u1");
        let done = engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(done.steps, 0, "a person expanded it before");
        engine.migrate(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        let of = |status: tidegate_migrations::Status| status.migrations[1].clone();
        let before = of(engine.status(&upgrade).await.unwrap());
        assert_eq!((before.ours, before.others), (false, vec!["by hand".to_owned()]));
        let undone = engine.undo(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(undone.steps, 0);
        client.run("SELECT colour FROM things").await;
        let other = engine.undo(&hop(1, 2, "u2"), &term(3), &watch, &cancel).await.unwrap();
        assert_eq!(other.steps, 0, "another upgrade owns none of it either");
        engine.undo(&all().between(1, 2), &term(3), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT colour FROM things").await.is_err(), "its owner takes it back");
        assert_eq!(client.number("SELECT count(*) FROM things").await, 50);
    }

    /// As where a copy from before the upgrade to version 2 takes the place of the database in the upgrade to version 3.
    pub(super) async fn upgrade_expands_nothing_over_an_unfilled_baseline(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let (below, upgrade) = (all().up_to(2), hop(2, 3, "u2"));
        for helps in ["schema expand --to 2 --migrations DIR", "schema migrate --to 2 --migrations DIR"] {
            let unfinished = engine.status(&upgrade).await.unwrap().unfinished.unwrap();
            assert!(unfinished.contains("0002_colour") && unfinished.contains(helps), "{unfinished}");
            let refused = engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap_err().to_string();
            assert!(refused.contains("0002_colour") && refused.contains(helps), "{refused}");
            assert!(client.try_run("SELECT size FROM things").await.is_err(), "nothing was expanded");
            match helps.contains("expand") {
                true => engine.expand(&below, &term(2), &watch, &cancel).await.unwrap(),
                false => engine.migrate(&below, &term(2), &watch, &cancel).await.unwrap(),
            };
        }
        let status = engine.status(&upgrade).await.unwrap();
        assert_eq!(status.unfinished, None, "what is only not contracted is no reason");
        engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        client.run("SELECT size FROM things").await;
    }

    /// As `baseline-lost` advises in the upgrade to version 3, where a person has undone what that builds on.
    pub(super) async fn baseline_undone_in_an_upgrade_is_made_again(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let (below, upgrade) = (all().up_to(2), hop(2, 3, "u2"));
        engine.expand(&below, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&below, &term(2), &watch, &cancel).await.unwrap();
        engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        engine.undo(&all().with_own(|m| m.version == 2), &term(2), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT colour FROM things").await.is_err(), "it is undone");
        let unfinished = engine.status(&upgrade).await.unwrap().unfinished.unwrap();
        for helps in ["schema expand --to 2 --migrations DIR", "schema migrate --to 2 --migrations DIR"] {
            assert!(unfinished.contains("0002_colour") && unfinished.contains(helps), "{unfinished}");
        }
        engine.expand(&below, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&below, &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(engine.status(&upgrade).await.unwrap().unfinished, None);
        let earlier = engine.status(&hop(1, 2, "u1")).await.unwrap_err();
        assert!(matches!(&earlier, Error::Drift { migration, .. } if migration == "0003_size"), "{earlier}");
    }

    /// By a certificate that was made before the baseline was lost.
    pub(super) async fn contract_by_hand_asks_the_baseline(database: Database) {
        at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let (below, by_hand) = (all().up_to(2), all().between(2, 3));
        engine.expand(&by_hand, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&by_hand, &term(2), &watch, &cancel).await.unwrap();
        for helps in ["schema expand --to 2 --migrations DIR", "schema migrate --to 2 --migrations DIR"] {
            let refused = engine.contract(&by_hand, &term(2), &proof(), &agreed, &watch, &cancel).await;
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("contract of 0003_size cannot run"), "{refused}");
            assert!(refused.contains("0002_colour") && refused.contains(helps), "{refused}");
            match helps.contains("expand") {
                true => engine.expand(&below, &term(2), &watch, &cancel).await.unwrap(),
                false => engine.migrate(&below, &term(2), &watch, &cancel).await.unwrap(),
            };
        }
        engine.contract(&by_hand, &term(2), &proof(), &agreed, &watch, &cancel).await.unwrap();
        let status = engine.status(&by_hand).await.unwrap();
        assert_eq!(status.migrations[2].contract, PhaseState::Done);
    }

    /// As where a person has made the baseline again on an older copy: a sync of it names the column that the upgrade's own
    /// contract removes.
    pub(super) async fn contract_of_an_upgrade_finishes_its_baseline_first(database: Database) {
        let renamed = |version: u32, old: &str, new: &str| {
            format!(
                "id = '000{version}_{new}'\nversion = {version}\nold_reads_migrated = true\n\
                 [expand]\nsteps = [{{ add_column = {{ table = 'things', column = '{new}', type = 'text' }} }}, \
                 {{ sync = {{ table = 'things', old = '{old}', new = '{new}', up = '{old}', down = '{new}' }} }}]\n\
                 [migrate]\nrequires = 'expanded'\nsteps = [{{ backfill = {{ table = 'things', key = 'id', \
                 where = '{new} IS NULL', set = {{ {new} = '{old}' }} }} }}]\n\
                 verify = 'SELECT count(*) FROM things WHERE {new} IS NULL'\n\
                 [contract]\nsteps = [{{ drop_sync = {{ table = 'things', new = '{new}' }} }}, \
                 {{ drop_column = {{ table = 'things', column = '{old}' }} }}]\n\
                 [undo]\nsteps = [{{ drop_sync = {{ table = 'things', new = '{new}' }} }}, \
                 {{ drop_column = {{ table = 'things', column = '{new}' }} }}]\n"
            )
        };
        let (two, three) = (renamed(2, "shade", "colour"), renamed(3, "colour", "tint"));
        let files =
            written(&[("0001_things.toml", THINGS), ("0002_colour.toml", &two), ("0003_tint.toml", &three)]);
        let all = set_in(files.path());
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let (below, upgrade) = (all.up_to(2), all.between(2, 3).owned_by(Owner::upgrade("u2")));
        engine.expand(&below, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&below, &term(2), &watch, &cancel).await.unwrap();
        let at_start = engine.obstacles(&upgrade).await.unwrap();
        assert!(at_start.len() == 1 && at_start[0].contains("it is not contracted"), "{at_start:?}");
        assert_eq!(engine.obstacles_once_started(&upgrade).await.unwrap(), Vec::<String>::new());
        completes(&engine, &upgrade, 2).await;
        let status = engine.status(&upgrade).await.unwrap();
        assert!(status.migrations.iter().all(|m| m.is_finished()), "{status:?}");
        for gone in ["SELECT shade FROM things", "SELECT colour FROM things"] {
            assert!(client.try_run(gone).await.is_err(), "{gone}");
        }
        client.run("INSERT INTO things (id, tint) VALUES (900, 'late')").await;
        assert_eq!(client.number("SELECT count(*) FROM things WHERE tint = 'x'").await, 50);
    }

    /// An upgrade carries out its migrations to the end of contract.
    async fn completes(engine: &Engine, upgrade: &MigrationSet, of: i64) {
        let (watch, cancel) = (watcher(), patient());
        engine.expand(upgrade, &term(of), &watch, &cancel).await.unwrap();
        engine.migrate(upgrade, &term(of), &watch, &cancel).await.unwrap();
        engine.contract(upgrade, &term(of), &proof(), &agreed, &watch, &cancel).await.unwrap();
    }

    pub(super) async fn undo_leaves_what_an_earlier_upgrade_contracted(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let first = hop(1, 2, "u1");
        completes(&engine, &first, 2).await;
        let second = hop(2, 3, "u2");
        engine.expand(&second, &term(3), &watch, &cancel).await.unwrap();
        engine.migrate(&second, &term(3), &watch, &cancel).await.unwrap();
        engine.undo(&second, &term(3), &watch, &cancel).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM things WHERE colour = 'x'").await, 50);
        assert!(client.try_run("SELECT size FROM things").await.is_err());
        let status = engine.status(&second).await.unwrap();
        assert!(status.migrations[..2].iter().all(|m| !m.own && m.is_finished()), "{status:?}");
    }

    /// As where the store is restored to a phase before contract, and the upgrade is rolled back from there.
    pub(super) async fn contract_without_steps_is_undone_with_the_rest(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        for (upgrade, of) in [(hop(1, 2, "u1"), 2), (hop(2, 3, "u2"), 3)] {
            completes(&engine, &upgrade, of).await;
        }
        let second = hop(2, 3, "u2");
        let of = |status: tidegate_migrations::Status| status.migrations[2].clone();
        let ended = of(engine.status(&second).await.unwrap());
        assert_eq!((ended.contract, ended.undoable), (PhaseState::Done, true), "{ended:?}");
        engine.undo(&second, &term(4), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT size FROM things").await.is_err(), "what it expanded is left");
        assert_eq!(client.number("SELECT count(*) FROM things WHERE colour = 'x'").await, 50);
        let undone = of(engine.status(&second).await.unwrap());
        assert_eq!((undone.expand, undone.contract), (PhaseState::NotStarted, PhaseState::NotStarted));
        assert!(!undone.undoable, "{undone:?}");
        engine.expand(&second, &term(4), &watch, &cancel).await.unwrap();
        client.run("SELECT size FROM things").await;
    }

    pub(super) async fn empty_contract_is_final_beside_one_that_removed(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let both = hop(1, 3, "u1");
        completes(&engine, &both, 2).await;
        let status = engine.status(&both).await.unwrap();
        assert!(status.migrations.iter().all(|m| !m.undoable), "{status:?}");
        assert_eq!(engine.undo(&both, &term(3), &watch, &cancel).await.unwrap().steps, 0);
        client.run("SELECT colour, size FROM things").await;
    }

    /// As where the store is restored to a phase before contract, and the upgrade goes on from there.
    pub(super) async fn rows_after_a_contract_without_steps_are_filled(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let drops = "[contract]\nsteps = [{ drop_column = { table = 'things', column = 'shade' } }]\n";
        let adds = COLOUR.replace(drops, "");
        assert_ne!(adds, COLOUR);
        let files = written(&[("0001_things.toml", THINGS), ("0002_colour.toml", &adds)]);
        let by_hand = set_in(files.path()).between(1, 2);
        let upgrade = by_hand.clone().owned_by(Owner::upgrade("u1"));
        completes(&engine, &upgrade, 2).await;
        client.run("INSERT INTO things (id, shade) VALUES (900, 'late')").await;
        let ended = engine.status(&by_hand).await.unwrap();
        assert_eq!((ended.next, ended.migrations[1].pending_rows), (None, None), "an upgrade has ended");
        assert_eq!(engine.migrate(&by_hand, &term(2), &watch, &cancel).await.unwrap().rows, 0);
        let (seen, _) = engine.state(&upgrade, RowCount::OpenOrEmpty).await.unwrap();
        let seen = &seen.migrations[1];
        assert_eq!((seen.pending_rows, seen.migrate), (Some(1), PhaseState::Running), "{seen:?}");
        assert_eq!(engine.pending_rows(&upgrade).await.unwrap(), 1);
        engine.migrate(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(engine.pending_rows(&upgrade).await.unwrap(), 0);
        assert_eq!(client.number("SELECT count(*) FROM things WHERE colour = 'late'").await, 1);
    }

    pub(super) async fn migration_whose_undo_has_begun_is_not_expanded(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let upgrade = hop(1, 2, "u1");
        engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        engine.migrate(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        let of = |status: tidegate_migrations::Status| status.migrations[1].clone();
        assert!(of(engine.status(&upgrade).await.unwrap()).is_expanded());
        client.run("CREATE VIEW colours AS SELECT colour FROM things").await;
        engine.undo(&upgrade, &term(3), &watch, &cancel).await.expect_err("the view needs the column");
        let begun = of(engine.status(&upgrade).await.unwrap());
        assert_eq!((begun.expand, begun.is_expanded()), (PhaseState::Done, false), "{begun:?}");
        assert_eq!(begun.pending_rows, None, "rows are not counted, which says of none that it is filled");
        client.run("DROP VIEW colours").await;
        engine.undo(&upgrade, &term(3), &watch, &cancel).await.unwrap();
        assert!(!of(engine.status(&upgrade).await.unwrap()).is_expanded());
    }

    pub(super) async fn pending_rows_are_those_of_own_migrations(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        engine.expand(&hop(1, 2, "u1"), &term(2), &watch, &cancel).await.unwrap();
        engine.expand(&all().between(2, 3), &term(2), &watch, &cancel).await.unwrap();
        let second = hop(1, 3, "u1").with_own(|m| m.version == 2);
        assert_eq!(engine.pending_rows(&second).await.unwrap(), 50);
        assert_eq!(engine.pending_rows(&hop(2, 3, "u2")).await.unwrap(), 0);
        assert!(second.old_reads_migrated() && !hop(2, 3, "u2").old_reads_migrated());
        assert_eq!(client.number("SELECT count(*) FROM things WHERE colour IS NULL").await, 50);
    }

    /// As the program before this one left it: no column for owners, rows of a leader.
    async fn forget_owners(client: &mut Client) {
        client.run("ALTER TABLE tidegate_history DROP COLUMN owner").await;
    }

    pub(super) async fn history_without_owners_gains_them_and_keeps_its_rows(database: Database) {
        let mut client = at_version_1(&database).await;
        forget_owners(&mut client).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let upgrade = hop(1, 2, "u1");
        let before = engine.status(&upgrade).await.unwrap();
        assert_eq!(before.migrations[0].expand, PhaseState::Done, "looking works before the first claim");
        assert!(client.try_run("SELECT owner FROM tidegate_history").await.is_err(), "and changes nothing");
        engine.claim(&term(2), &patient()).await.unwrap();
        engine.expand(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        let owners = "SELECT DISTINCT coalesce(owner, '-') FROM tidegate_history ORDER BY 1";
        assert_eq!(client.texts(owners).await, ["-", "u1"]);
        engine.undo(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM things").await, 50);
    }

    pub(super) async fn unrecorded_rows_that_asked_what_is_there_stay(database: Database) {
        let mut client = at_version_1(&database).await;
        client.run("CREATE TABLE extra (id INTEGER)").await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        let text = |create: &str| {
            let text = format!(
                "id = '0002_extra'\nversion = 2\nold_reads_migrated = true\n[expand]\nsteps = [\
                 {{ sql = '{create} extra (id INTEGER)' }}]\n[undo]\nsteps = [{{ sql = 'DROP TABLE IF EXISTS extra' }}]\n"
            );
            set_in(written(&[("0001_things.toml", THINGS), ("0002_extra.toml", &text)]).path()).between(1, 2)
        };
        let upgrade = text("CREATE TABLE IF NOT EXISTS").owned_by(Owner::upgrade("u1").with_unrecorded());
        // As the program before this one recorded the step: it ran, and found the table.
        for at in [-1, 0] {
            client
                .run(&format!(
                    "INSERT INTO tidegate_history (migration, phase, step, summary, checksum, state, term_revision, \
                     term_id, started) VALUES ('0002_extra', 'expand', {at}, '', '', 'done', 1, 't1', '')"
                ))
                .await;
        }
        let Err(Error::Drift { now, .. }) = engine.status(&upgrade).await else { panic!("no checksum yet") };
        client.run(&format!("UPDATE tidegate_history SET checksum = '{now}' WHERE checksum = ''")).await;
        let status = engine.status(&upgrade).await.unwrap().migrations.pop().unwrap();
        assert!(status.left[0].contains("may have found what was there before"), "{status:?}");
        engine.undo(&upgrade, &term(2), &watch, &cancel).await.unwrap();
        client.run("SELECT id FROM extra").await;
        let status = engine.status(&upgrade).await.unwrap().migrations.pop().unwrap();
        assert_eq!((status.ours, status.expand), (false, PhaseState::NotStarted));
    }

    pub(super) async fn unrecorded_rows_are_undone_only_for_their_upgrade(database: Database) {
        let mut client = at_version_1(&database).await;
        let (engine, watch, cancel) = (database.engine().await, watcher(), patient());
        engine.expand(&hop(1, 2, "u1"), &term(2), &watch, &cancel).await.unwrap();
        forget_owners(&mut client).await;
        let new = engine.undo(&hop(1, 2, "u2"), &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(new.steps, 0, "it did not expand them, and says who did");
        let status = engine.status(&hop(1, 2, "u2")).await.unwrap();
        assert_eq!(status.migrations[1].others, ["an owner that was not recorded"]);
        let by_hand = engine.undo(&all().between(1, 2), &term(2), &watch, &cancel).await.unwrap();
        assert_eq!(by_hand.steps, 0, "a leader wrote them, not a person");
        let former = all().between(1, 2).owned_by(Owner::upgrade("u1").with_unrecorded());
        engine.undo(&former, &term(2), &watch, &cancel).await.unwrap();
        assert!(client.try_run("SELECT colour FROM things").await.is_err());
        assert_eq!(client.number("SELECT count(*) FROM things").await, 50, "and nothing below `from`");
    }
}
