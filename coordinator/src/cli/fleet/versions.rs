//! `tidegate fleet versions SERVICE`.

use super::super::exit::{Failure, Outcome};
use super::super::options::GlobalOptions;
use super::super::show;
use tidegate_proto::wire::v1::FleetVersionsRequest;

/// Asks and shows.
pub(super) async fn show(options: &GlobalOptions, service: String) -> Result<Outcome, Failure> {
    let reply = options.client().await?.fleet_versions(FleetVersionsRequest { service }).await?.into_inner();
    let certain = reply.silent == 0 && reply.unknown == 0;
    if options.json {
        show::json(&reply)?;
    } else {
        let distinct: Vec<String> = reply.distinct.iter().map(u32::to_string).collect();
        let distinct = if distinct.is_empty() { "none".to_owned() } else { distinct.join(", ") };
        let (minimum, maximum) = (show::or_dash(reply.minimum), show::or_dash(reply.maximum));
        show::line(format!("distinct  {distinct}"))?;
        show::line(format!("minimum   {minimum}"))?;
        show::line(format!("maximum   {maximum}"))?;
        show::line(format!("silent    {}", reply.silent))?;
        show::line(format!("unknown   {}", reply.unknown))?;
    }
    Ok(if certain { Outcome::Good } else { Outcome::Refused })
}
