//! Every interleaving of a small fleet: three instances, a leader that may be deposed, commits that arrive late,
//! agents that lag, fall silent, come back, or come back old. It calls the product's own `plan`, `certify` and `ask`,
//! and explores to the end, without a depth limit.

mod state;

use state::{Faults, State};
use stateright::{Checker, Model, Property};
use tidegate_planner::{Action, plan};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{InstanceId, Key, NodeId};

use crate::sim::{service, upgrade_id};

/// What may happen next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Happens {
    /// The leader plans, and its first action is carried out.
    Turn,
    /// The leader plans, and its first commit is on its way for an unknown time.
    Send,
    /// The commit that was on its way arrives.
    Arrive,
    /// An agent takes a step and reports it.
    Act(NodeId),
    /// An agent takes a step, and its report is late (or the agent is killed and comes back).
    ActUnseen(NodeId),
    /// An agent reports.
    Report(NodeId),
    /// An agent's lease lapses; its service goes on.
    Lapse(NodeId),
    /// An agent that was silent reports again.
    Return(NodeId),
    /// A node that was silent comes back with the old code.
    ReturnOld(NodeId),
    /// A person stops a silent instance and says that it is gone.
    Decommission(NodeId),
    /// The new version does not work on this node.
    Break(NodeId),
    /// Another coordinator leads.
    Elect,
    /// An operator requests a rollback.
    RollBack,
    /// Every readiness URL fails; every health URL goes on to answer 200.
    Hiccup,
    /// All are ready again.
    Recover,
}

/// The fleet that is explored, and which faults may happen to it.
struct Small {
    nodes: usize,
    schema: bool,
    faults: Faults,
}

impl Model for Small {
    type State = State;
    type Action = Happens;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin(self.nodes, self.schema, self.faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Happens>) {
        let faults = &state.faults;
        actions.push(Happens::Turn);
        match &state.on_its_way {
            Some(_) => actions.push(Happens::Arrive),
            None if faults.late > 0 => actions.push(Happens::Send),
            None => {}
        }
        for (node, agent) in &state.world.agents {
            let n = || node.clone();
            if agent.alive {
                actions.push(Happens::Act(n()));
                if state.world.is_report_due(node) {
                    actions.push(Happens::Report(n()));
                }
                if faults.unseen > 0 {
                    actions.push(Happens::ActUnseen(n()));
                }
                if faults.lapse > 0 {
                    actions.push(Happens::Lapse(n()));
                }
                if faults.broken > 0 {
                    actions.push(Happens::Break(n()));
                }
            } else {
                actions.push(Happens::Return(n()));
                if faults.old > 0 {
                    actions.push(Happens::ReturnOld(n()));
                }
                if faults.decommission > 0 {
                    actions.push(Happens::Decommission(n()));
                }
            }
        }
        if faults.elect > 0 {
            actions.push(Happens::Elect);
        }
        if faults.roll_back > 0 {
            actions.push(Happens::RollBack);
        }
        if faults.hiccup > 0 {
            actions.push(Happens::Hiccup);
        }
        if state.is_unready() {
            actions.push(Happens::Recover);
        }
    }

    fn next_state(&self, last: &State, happens: Happens) -> Option<State> {
        let mut next = last.clone();
        happen(&mut next, happens)?;
        next.normalise();
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("rule 1: nothing old serves once contract began", |_, s| {
                s.nothing_old_serves_after_contract()
            }),
            Property::<Self>::always(
                "rule 2: no instance outside the window is admitted into rotation",
                |_, s| s.no_instance_serves_outside_the_window(),
            ),
            Property::<Self>::always("rule 4: min_in_service really serve", |_, s| s.capacity_holds()),
            Property::<Self>::always("rule 10: rolled back means back", |_, s| s.rolled_back_means_back()),
            Property::<Self>::always("rule 12: completed means seen", |_, s| s.completed_means_seen()),
            Property::<Self>::always("contract is never left but for completed", |_, s| {
                s.contract_is_final()
            }),
            Property::<Self>::always("what does not move says why", |_, s| !s.mute),
            Property::<Self>::sometimes("completed", |_, s| s.phase() == Phase::Completed),
            Property::<Self>::sometimes("rolled back", |_, s| matches!(s.phase(), Phase::RolledBack { .. })),
            Property::<Self>::sometimes("refused, where old nodes return", |model, s| {
                model.faults.old == 0
                    || s.world.agents.values().any(|a| matches!(a.report.step, Step::Refused { .. }))
            }),
        ]
    }
}

fn happen(state: &mut State, happens: Happens) -> Option<()> {
    if matches!(happens, Happens::Turn | Happens::Send | Happens::Decommission(_) | Happens::RollBack) {
        state.world.store.rebuild();
    }
    match happens {
        Happens::Turn => turn(state)?,
        Happens::Send => {
            state.faults.late -= 1;
            // As a leader writes it: it compares the leader's key.
            let fence = Precondition::CreatedAt(Key::Leader, state.world.moment().leader.revision);
            state.on_its_way = Some(state::lean(&first_commit(state)?).when(fence));
        }
        Happens::Arrive => {
            let commit = state.on_its_way.take()?;
            state.carry_out(&commit);
        }
        Happens::Act(node) => state.world.agent_step(&node).then_some(())?,
        Happens::ActUnseen(node) => {
            state.faults.unseen -= 1;
            state.world.act(&node).then_some(())?;
        }
        Happens::Report(node) => state.world.publish(&node),
        Happens::Lapse(node) => {
            state.faults.lapse -= 1;
            state.lapse(&node);
        }
        Happens::Return(node) => {
            let here = !state.stopped.contains(&node);
            here.then_some(())?;
            state.world.agents.get_mut(&node)?.alive = true;
            state.world.publish(&node);
        }
        Happens::ReturnOld(node) => {
            state.faults.old -= 1;
            state.return_old(&node);
        }
        Happens::Decommission(node) => {
            state.faults.decommission -= 1;
            decommission(state, &node)?;
        }
        Happens::Break(node) => {
            state.faults.broken -= 1;
            state.world.agents.get_mut(&node)?.broken_at = Some(2);
            state.faulted.insert(node);
        }
        Happens::Elect => {
            state.faults.elect -= 1;
            state.world.elect(2);
        }
        Happens::RollBack => {
            state.faults.roll_back -= 1;
            let asker = person("a person asks");
            let commit = tidegate_planner::ask::roll_back(
                state.world.store.fleet(),
                &state.world.moment(),
                &upgrade_id(),
                &asker,
            )
            .ok()?;
            state.carry_out(&commit);
        }
        Happens::Hiccup => {
            state.faults.hiccup -= 1;
            state.set_unready(true);
        }
        Happens::Recover => state.set_unready(false),
    }
    Some(())
}

fn person(why: &str) -> tidegate_planner::ask::Asker {
    tidegate_planner::ask::Asker { who: "op".into(), why: why.into(), accepts: Default::default() }
}

fn turn(state: &mut State) -> Option<()> {
    let plan = plan(state.world.store.fleet(), &state.world.moment());
    if !crate::sim::says_why(&plan) {
        state.mute = true;
        return Some(());
    }
    match plan.actions.first()? {
        Action::Commit(planned) => drop(state.carry_out(&planned.commit)),
        Action::Schema { job, .. } => state.world.work(*job),
        Action::Certify { .. } => {
            for commit in certificate(state)? {
                state.carry_out(&commit);
            }
        }
    }
    Some(())
}

fn first_commit(state: &State) -> Option<Commit> {
    let plan = plan(state.world.store.fleet(), &state.world.moment());
    match plan.actions.into_iter().next()? {
        Action::Commit(planned) => Some(planned.commit),
        Action::Schema { .. } => None,
        Action::Certify { .. } => certificate(state)?.pop(),
    }
}

fn certificate(state: &State) -> Option<Vec<Commit>> {
    let world = &state.world;
    let made = tidegate_planner::plan::certify(
        world.store.fleet(),
        &world.moment(),
        &upgrade_id(),
        world.evidence.clone(),
    );
    made.ok().map(|made| made.commits)
}

/// The person really stops it first, and then says so.
fn decommission(state: &mut State, node: &NodeId) -> Option<()> {
    let id = InstanceId::new(service(), node.clone());
    let commit = tidegate_planner::ask::decommission(
        state.world.store.fleet(),
        &state.world.moment(),
        &id,
        tidegate_planner::ask::Gone { stopped_how: Some("power off".into()), ..Default::default() },
        &person("gone"),
    )
    .ok()?;
    state.stop(node);
    state.carry_out(&commit).then_some(())
}

fn explore(model: Small) -> usize {
    let began = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_dfs();
    while !checker.is_done() {
        std::thread::sleep(std::time::Duration::from_millis(500));
        println!("{} distinct states, {:.1} s", checker.unique_state_count(), began.elapsed().as_secs_f64());
    }
    let states = checker.unique_state_count();
    println!("{states} distinct states in {:.1} s", began.elapsed().as_secs_f64());
    for (name, path) in checker.discoveries() {
        let property = checker.model().properties().into_iter().find(|p| p.name == name);
        if property.is_some_and(|p| matches!(p.expectation, stateright::Expectation::Always)) {
            let actions: Vec<String> = path.into_actions().iter().map(|a| format!("{a:?}")).collect();
            panic!("{name}: broken by {actions:#?}");
        }
    }
    checker.assert_properties();
    states
}

#[test]
fn three_instances_with_every_fault_once() {
    let states = explore(Small { nodes: 3, schema: true, faults: Faults::EACH_ONCE });
    assert!(states >= 100_000, "only {states} distinct states");
}

#[test]
fn three_instances_of_which_all_are_unready_for_a_while() {
    let states = explore(Small { nodes: 3, schema: false, faults: Faults::HICCUP });
    assert!(states >= 10_000, "only {states} distinct states");
}
