//! How far the judge of zero-impact can be trusted: the figures of `grenade calibrate`.

use std::fmt::Write;

use crate::gate::impact::calibrate::{Calibration, Rates, Seen};
use crate::gate::report::GateReport;
use crate::gate::report::html::table;
use crate::gate::report::junit::escaped;

/// What was said of pools without an upgrade, and of simulated runs.
const RATES: [&str; 6] = ["", "runs", "pass %", "inconclusive %", "fail %", "fail %, 95 % interval"];
/// How often other judges see an effect.
const RIVALS: [&str; 4] =
    ["other judges see an effect", "before and after", "beside a twin", "beside, with stalls"];

/// The figures; nothing where there are none.
pub(super) fn trust(page: &mut String, report: &GateReport) {
    let Some(calibration) = &report.calibration else { return };
    let Calibration { rate, seconds, looks, context, .. } = calibration;
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<h2>How far zero-impact can be trusted</h2><p>Measured by <code>grenade calibrate</code> from {} on, on {}: {rate} \
         requests a second to each pool, at most {looks} looks, {seconds:.0} s for each.{}</p>",
        escaped(&context.began),
        escaped(&context.machine.words()),
        match context.machine == report.context.machine {
            true => "",
            false => " <strong>This report is of another machine or kernel.</strong>",
        }
    );
    table::begin(page, &RATES);
    row(page, "idle pairs, measured", &calibration.idle_pairs);
    for simulated in &calibration.simulated {
        row(page, &format!("simulated: {}", simulated.effect), &simulated.rates);
    }
    let _ = write!(
        page,
        "</table><p>Smallest shift of p99 shown in 120 s with a power of 90 %: {:.1} % (median).</p>",
        calibration.smallest_p99_shift_percent
    );
    table::begin(page, &RIVALS);
    for rival in &calibration.rivals {
        let of = |seen: Seen| format!("{} of {}", seen.seen, seen.comparisons);
        let cells = [escaped(&rival.judge), of(rival.before_and_after), of(rival.twin), of(rival.stalls)];
        page.push_str("<tr>");
        table::cells(page, &RIVALS, &cells);
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

fn row(page: &mut String, name: &str, rates: &Rates) {
    let Rates { runs, pass, inconclusive, fail, fail_part: (low, high) } = *rates;
    let percent = |count: u32| format!("{:.1}", f64::from(count) / f64::from(runs.max(1)) * 100.0);
    let interval = format!("{:.1} to {:.1}", low * 100.0, high * 100.0);
    page.push_str("<tr>");
    let cells =
        [escaped(name), runs.to_string(), percent(pass), percent(inconclusive), percent(fail), interval];
    table::cells(page, &RATES, &cells);
    page.push_str("</tr>");
}
