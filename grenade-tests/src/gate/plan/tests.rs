use std::path::Path;

use super::shrink::shrink;
use super::*;
use crate::gate::file;

fn gate(more: &str) -> Gate {
    let text = include_str!("../../../gates/items.yaml");
    file::parse(&format!("{text}\n{more}"), Path::new("gate.yaml"), Path::new("/")).unwrap()
}

#[test]
fn same_seed_draws_the_same_and_every_event_is_drawn() {
    let gate = gate("");
    let mut words = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let plan = Plan::draw(seed, &gate);
        assert_eq!(plan, Plan::draw(seed, &gate));
        let flaws = plan.flaws(&gate, "steps").all();
        assert!(flaws.is_empty(), "seed {seed}: {flaws:?}");
        let said = serde_json::to_value(&plan).unwrap();
        for step in said["steps"].as_array().unwrap() {
            let event = &step["do"];
            let name = event.as_str().or_else(|| event.as_object()?.keys().next().map(String::as_str));
            words.insert(name.unwrap().to_owned());
        }
    }
    assert_eq!(words.len(), 7, "{words:?}");
}

#[test]
fn plan_is_read_as_it_was_written() {
    let (gate, room) = (gate(""), tempfile::tempdir().unwrap());
    let path = room.path().join("plan.yaml");
    for seed in 0..50 {
        let plan = Plan::draw(seed, &gate);
        std::fs::write(&path, plan.yaml().unwrap()).unwrap();
        assert_eq!(Plan::load(&path, &gate).unwrap(), plan, "{}", plan.yaml().unwrap());
    }
}

#[test]
fn plan_that_does_not_fit_the_gate_has_what_is_allowed() {
    let (gate, room) = (gate(""), tempfile::tempdir().unwrap());
    let path = room.path().join("plan.yaml");
    let wrong = "max_unavailable: 3\nsteps:\n  - {when: {upgraded: 4}, do: {kill-agent: 9}}\n";
    for (text, parts) in [
        (wrong, vec!["max_unavailable: 3", "1 to 2 is", "steps[0].when.upgraded: 4", "there is no node-9"]),
        ("steps:\n  - {when: {upgraded: 1}, do: dance}\n", vec!["dance", "roll-back"]),
        ("step: []\n", vec!["step"]),
        ("steps:\n  - {when: {upgraded: -1}, do: roll-back}\n", vec!["a whole number from 1 to 24"]),
        ("steps:\n  - {when: {upgraded: 25}, do: roll-back}\n", vec!["25", "a whole number from 1 to 24"]),
        ("steps:\n  - {when: {upgraded: 1}, do: {kill-agent: x}}\n", vec!["a whole number from 1 to 24"]),
        ("order: 0\n", vec![":1:1: order: ", "a whole number from 1 to 9999"]),
        (
            "steps:\n  - when: {upgraded: 1}\n    do: pause\n",
            vec![":3:5: steps.0.do: ", "`pause` needs a time: `{pause: 2s}`"],
        ),
        (
            "steps:\n  - {when: {upgraded: 1}, do: kill-agent}\n",
            vec!["steps.0.do", "`kill-agent` needs the number of a node: `{kill-agent: 1}`"],
        ),
        ("steps:\n  - {when: {upgraded: 1}, do: {verify: 1}}\n", vec!["`verify` has no value"]),
        ("steps:\n  - {when: {upgraded: 4}, do: verify}\n", vec![":2:13: steps[0].when.upgraded: 4"]),
        ("max_unavailable: 0\n", vec!["a whole number from 1 to 23"]),
        (" \n", vec!["is empty", "grenade plan"]),
        ("strategy: {rolling: {batch: 0}}\n", vec!["strategy.rolling.batch", "1 or more"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = format!("{:#}", Plan::load(&path, &gate).unwrap_err());
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[tokio::test]
async fn plan_shrinks_to_what_makes_it_fail() {
    let gate = gate("");
    let (mut shrunk, mut runs) = (0, 0);
    for seed in 0..200 {
        let plan = Plan::draw(seed, &gate);
        let rolls_back = |plan: &Plan| plan.steps.iter().any(|step| step.event == Event::RollBack);
        if !rolls_back(&plan) {
            continue;
        }
        let smallest = shrink(plan, async |plan| {
            runs += 1;
            Ok(rolls_back(plan))
        })
        .await;
        assert_eq!(smallest.steps.len(), 1, "{smallest}");
        assert_eq!((smallest.max_unavailable, &smallest.strategy), (Some(1), &Some(Strategy::default())));
        assert_eq!(smallest.order, None);
        shrunk += 1;
    }
    assert!(shrunk > 20, "{shrunk}");
    // On real processes each run takes half a minute.
    assert!(runs / shrunk < 10, "{} runs a plan", runs / shrunk);
}

#[tokio::test]
async fn part_that_cannot_be_run_is_not_the_smallest() {
    let step = |event| PlanStep { when: When::Upgraded(1), event };
    let steps = vec![step(Event::KillCoordinator), step(Event::RollBack)];
    let smallest =
        shrink(Plan { steps: steps.clone(), ..Plan::default() }, async |plan| match plan.steps.as_slice() {
            [] => Err(anyhow::anyhow!("the coordinator gave no answer")),
            steps => Ok(steps.iter().any(|step| step.event == Event::RollBack)),
        })
        .await;
    assert_eq!(smallest.steps, steps[1..]);
}
