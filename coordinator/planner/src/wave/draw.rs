//! Who is in which wave: ordered by a hash of seed (the upgrade) and node, so that the same fleet is drawn the same way twice,
//! then dealt over the failure domains in turn, so that no early wave sits in one of them.

use super::sizes;
use std::collections::{BTreeMap, VecDeque};
use tidegate_proto::record::waves::{PAGE_MEMBERS, WavePage};
use tidegate_proto::spec::Strategy;
use tidegate_proto::{Digest, NodeId};

/// A fleet, divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Each node with its wave, in order of waves.
    pub members: Vec<(NodeId, u32)>,
    /// The size of each wave.
    pub sizes: Vec<u32>,
}

/// Divides the nodes in the order that `seed` gives them (each with its failure domain, empty where that is not asked) into waves.
pub fn draw<'a>(
    seed: &str,
    strategy: &Strategy,
    nodes: impl Iterator<Item = (&'a NodeId, &'a str)>,
) -> Drawn {
    let order = dealt(seed, nodes);
    let sizes = sizes(strategy, order.len());
    let waves = sizes.iter().enumerate().flat_map(|(wave, size)| std::iter::repeat_n(wave as u32, *size));
    Drawn {
        members: order.into_iter().zip(waves).collect(),
        sizes: sizes.iter().map(|size| *size as u32).collect(),
    }
}

fn dealt<'a>(seed: &str, nodes: impl Iterator<Item = (&'a NodeId, &'a str)>) -> Vec<NodeId> {
    let mut domains: BTreeMap<&str, Vec<(Digest, &NodeId)>> = BTreeMap::new();
    for (node, domain) in nodes {
        let hash = Digest::of(format!("{seed}/{node}").as_bytes());
        domains.entry(domain).or_default().push((hash, node));
    }
    let mut hands: VecDeque<_> = domains
        .into_values()
        .map(|mut hand| {
            hand.sort_unstable();
            hand.into_iter()
        })
        .collect();
    let mut order = Vec::new();
    while let Some(mut hand) = hands.pop_front() {
        if let Some((_, node)) = hand.next() {
            order.push(node.clone());
            hands.push_back(hand);
        }
    }
    order
}

/// Redraws the rest after a wave was emptied: finished instances stay in their waves, the others fill the waves from
/// the emptied one on, in their old order and the old sizes.
pub fn redraw(settled: Vec<(NodeId, u32)>, left: Vec<NodeId>, sizes: &[u32], from: u32) -> Drawn {
    let open = sizes.iter().enumerate().skip(from as usize);
    let last = (sizes.len() as u32).saturating_sub(1);
    let places = open.flat_map(|(wave, size)| std::iter::repeat_n(wave as u32, *size as usize));
    let placed = left.into_iter().zip(places.chain(std::iter::repeat(last)));
    let members: Vec<(NodeId, u32)> = settled.into_iter().chain(placed).collect();
    let waves = members.iter().map(|(_, wave)| *wave as usize + 1).max().unwrap_or(0);
    let mut sizes = vec![0; waves];
    members.iter().for_each(|(_, wave)| sizes[*wave as usize] += 1);
    Drawn { members, sizes }
}

/// The pages to store.
pub fn pages(drawn: &Drawn) -> Vec<WavePage> {
    drawn.members.chunks(PAGE_MEMBERS).map(|members| WavePage { members: members.to_vec() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_wave_is_filled_from_the_next_ones() {
        let n = |i: usize| -> NodeId { format!("n{i}").parse().unwrap() };
        let drawn = redraw(vec![(n(0), 0)], vec![n(2), n(3), n(4)], &[1, 1, 2, 4], 1);
        assert_eq!(drawn.members, [(n(0), 0), (n(2), 1), (n(3), 2), (n(4), 2)]);
        assert_eq!(drawn.sizes, [1, 1, 2]);
    }

    #[test]
    fn membership_is_stable_and_spread_over_domains() {
        let nodes: Vec<NodeId> = (0..90).map(|n| format!("n{n}").parse().unwrap()).collect();
        let zone = |n: usize| ["a", "b", "c"][n % 3];
        let draw_it = |rev: bool| {
            let mut with: Vec<(&NodeId, &str)> =
                nodes.iter().enumerate().map(|(i, n)| (n, zone(i))).collect();
            if rev {
                with.reverse();
            }
            draw("u1", &Strategy::Rolling { batch: tidegate_proto::Amount::Count(30) }, with.into_iter())
        };
        let drawn = draw_it(false);
        assert_eq!(drawn, draw_it(true), "the order in which nodes are seen does not matter");
        assert_eq!(drawn.sizes, [30, 30, 30]);
        for wave in 0..3 {
            for z in ["a", "b", "c"] {
                let n = drawn
                    .members
                    .iter()
                    .filter(|(node, w)| *w == wave && zone(node.as_str()[1..].parse().unwrap()) == z)
                    .count();
                assert_eq!(n, 10, "wave {wave}, zone {z}");
            }
        }
    }
}
