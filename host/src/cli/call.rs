//! `granary call TYPE/KEY METHOD ARGS…`: one call, with WAVE or JSON arguments.

use std::time::Duration;

use clap::Args;

use super::client::{Body, Client, escape, grain_path};
use super::{CliError, Target, output};
use crate::exit_code;

/// Call a method of a grain.
///
///     granary call counter/alice increment 5
///     granary call account/alice deposit --json '[100]'
///
/// The result goes to standard output; a method's own error is a result too, printed as err(…).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CallArgs {
    /// The grain: TYPE/KEY, split at the first slash.
    grain: String,
    /// The method: METHOD, INTERFACE.METHOD or NAMESPACE:PACKAGE/INTERFACE.METHOD.
    method: String,
    /// The arguments in WAVE, one word each: 5 -5 "text" true [1,2] {name: "x"}. After `--` everything is one.
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// The arguments are JSON values, or one JSON array or object of all of them; so is the result.
    #[arg(long)]
    json: bool,
    /// How long to wait, such as 500ms or 10s.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &CallArgs) -> Result<(), CliError> {
    if args.arguments.iter().any(|word| word.trim().is_empty()) {
        return Err(CliError::data("an argument is empty; the empty string is '\"\"'"));
    }
    let (arguments, json) = arguments(args);
    let path = format!("/v1/grains/{}/{}", grain_path(&args.grain)?, escape(&args.method));
    let timeout_ms = u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX);
    if timeout_ms == 0 {
        return Err(CliError::new(exit_code::USAGE, "--timeout is at least 1ms"));
    }
    // The silo answers at the deadline; the client waits a little longer for that answer.
    let client = Client::with_timeout(&args.target, args.timeout.saturating_add(Duration::from_secs(5)))?;
    let content_type = if json { "application/json" } else { "text/x-wave" };
    let result = client.call(&path, &Body { content_type, bytes: arguments.as_bytes() }, timeout_ms)?;
    if result.is_empty() { Ok(()) } else { output::data(&result) }
}

/// The arguments as one text. `--json '[5]'` may stand before the arguments or after them, so the flag takes no
/// value; a single JSON array or object is the whole list, anything else is one element of it.
fn arguments(args: &CallArgs) -> (String, bool) {
    if !args.json {
        return (args.arguments.join(", "), false);
    }
    let text = match args.arguments.as_slice() {
        [whole] if matches!(whole.trim_start().chars().next(), Some('[' | '{')) => whole.clone(),
        several => format!("[{}]", several.join(",")),
    };
    (text, true)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        call: CallArgs,
    }

    fn parse(words: &[&str]) -> CallArgs {
        Line::try_parse_from([&["call", "c/a", "m"], words].concat()).unwrap().call
    }

    #[test]
    fn flags_after_arguments_are_flags_and_negative_numbers_are_arguments() {
        let call = parse(&["-5", "\"x\"", "--admin", "http://x", "--timeout", "1s"]);
        assert_eq!(call.arguments, ["-5", "\"x\""]);
        assert_eq!(call.target.admin, "http://x");
        assert_eq!(arguments(&call), ("-5, \"x\"".to_owned(), false));
    }

    #[test]
    fn json_is_one_list_or_one_value_for_each_word() {
        assert_eq!(arguments(&parse(&["--json", "[5]"])).0, "[5]");
        assert_eq!(arguments(&parse(&["5", "{\"a\":1}", "--json"])).0, "[5,{\"a\":1}]");
        assert_eq!(arguments(&parse(&["--json"])).0, "[]");
    }
}
