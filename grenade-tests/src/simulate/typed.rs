//! What a reason advises can be typed as it stands: the program knows its words and options. What a person has to say is an
//! ellipsis there, and what a person has to find out a word in capitals.

use super::world::World;
use clap::CommandFactory;
use tidegate_coordinator::cli::Cli;

/// What is advised where one waits.
pub(super) fn judge_advice(world: &World, what: &str, next_step: Option<&str>) {
    let wrong = next_step.into_iter().flat_map(commands).find_map(|words| Some((refused(&words)?, words)));
    if let Some((why, words)) = wrong {
        let text = format!("{what} waits, and its advice cannot be typed: {}: {why}", words.join(" "));
        world.testbed.state().facts.breach(world.testbed.now(), 0, text);
    }
}

/// The commands of the program in an advice, by their words: one ends where another way or a second step begins.
fn commands(advice: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut is_in = false;
    for word in advice.split_whitespace() {
        if word == "tidegate" {
            found.push(Vec::new());
            is_in = true;
        }
        let Some(command) = found.last_mut().filter(|_| is_in) else { continue };
        is_in = !word.ends_with([',', ';']);
        command.push(word.trim_end_matches([',', ';']).to_owned());
    }
    found
}

/// Why the program does not take it, with a number where something is left to fill in.
fn refused(words: &[String]) -> Option<String> {
    let is_left = |word: &String| word == "…" || word.chars().all(|letter| letter.is_ascii_uppercase());
    let filled = words.iter().map(|word| if is_left(word) { "1" } else { word.as_str() });
    let error = Cli::command().try_get_matches_from(filled).err()?;
    Some(error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_typed(advice: &str) -> bool {
        let all = commands(advice);
        assert!(!all.is_empty(), "{advice}");
        all.iter().all(|words| refused(words).is_none())
    }

    #[test]
    fn advice_is_taken_by_the_program() {
        assert!(is_typed("tidegate upgrade resume u0, or tidegate upgrade rollback u0 --why …"));
        assert!(is_typed("wait until 12:00, or tidegate upgrade rollback u0 --why …"));
        assert!(is_typed("tidegate upgrade approve u0 contract --accept sessions"));
        assert!(is_typed("tidegate fleet decommission pantry/n00 --why … --stopped-how …"));
        assert!(is_typed(
            "tidegate schema expand --to 2 --migrations DIR --from-env URL, then tidegate schema migrate --to 2 --migrations DIR --from-env URL"
        ));
        assert!(
            !is_typed("tidegate upgrade resume u0, or tidegate upgrade roll-back u0 --why …"),
            "there is no such verb"
        );
        assert!(!is_typed("tidegate upgrade rollback u0"), "it has to be said why");
        assert!(!is_typed("tidegate upgrade retry u0 n00 --declare-dead --why …"), "there is no such option");
        assert!(
            !is_typed("tidegate fleet window pantry --floor two --ceiling 3 --why …"),
            "two is no number"
        );
        assert!(commands("tidegate-agent check (on n00)").is_empty(), "that is another program");
    }
}
