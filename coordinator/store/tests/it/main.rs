//! What the store promises, shown by one suite on the embedded store and on a real etcd, and what only one of them
//! can show.

#![expect(clippy::unwrap_used, reason = "a test says what it expects in one word")]

mod embedded;
mod etcd;
mod line;
mod proxy;
mod real_etcd;
mod repeated;
mod replaced;
mod suite;
mod world;

/// The suite, once for each store.
macro_rules! run_suite {
    ($world:path) => {
        $crate::run_suite!($world;
            reading: a_scope_of_20_000_keys_is_listed_at_one_revision,
            reading: records_of_a_megabyte_are_listed_in_smaller_pages,
            reading: what_is_no_record_hides_nothing_else,
            reading: many_keys_are_read_at_one_revision,
            committing: a_commit_is_all_or_nothing_and_names_what_was_broken,
            committing: a_put_in_the_kind_refuses_and_a_removal_does_not,
            committing: a_new_key_of_the_kind_refuses_and_a_further_put_does_not,
            committing: what_breaks_a_limit_is_refused_before_it_is_sent,
            committing: commit_with_lost_answer_is_read_back_and_never_resent,
            committing: a_commit_that_never_arrived_is_read_back_as_not_applied,
            committing: a_commit_overwritten_since_is_found_in_the_history,
            watching: all_changes_of_one_revision_come_together,
            watching: an_agent_is_sent_its_own_keys_only,
            watching: a_watch_resumes_where_the_connection_was_cut,
            watching: watch_behind_a_compaction_lists_again,
            watching: a_slow_reader_loses_nothing,
            watching: a_line_that_hangs_is_noticed,
            watching: a_cancelled_watch_ends,
            leading: lease_is_kept_alive_and_its_loss_is_reported,
            leading: a_paused_lease_lapses_and_takes_its_keys_along,
            leading: a_lease_outlives_a_cut_connection,
            leading: second_candidate_leads_when_first_is_cut_off_and_fenced,
            leading: leader_without_key_knows_it_and_resigned_one_makes_room,
            leading: leader_without_record_of_its_term_steps_down,
            leading: a_bid_that_was_carried_out_without_an_answer_is_recognised,
            leading: a_term_is_used_once,
        );
    };
    ($world:path; $($room:ident: $test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $crate::suite::$room::$test(&$world().await).await;
            }
        )*
    };
}
pub(crate) use run_suite;
