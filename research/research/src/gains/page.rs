//! The page about a model: its training data, and its accuracy on held-out data.

use std::fmt::Write as _;

use control::gain_model::{GainModel, TrainingScore};
use statistics::percent;

/// The page (docs/reference/gain-model.md), in Markdown.
pub fn page(model: &GainModel) -> String {
    let GainModel { preference, settings, trees, error, training } = model;
    let leaves: usize = trees.iter().map(|tree| tree.nodes.len() + 1).sum();
    let mut text = format!(
        "# The model of gains\n\n\
         Printed by `seekwise-lab learn gains manual`. Where the twin forecasts nothing, the controller `seekwise` goes by what a model expects of each setting \
         under a load that it has seen for a few seconds, if settings that the model chose for drives that were held out gained in the mean. {}\n\n\
         *Model.* A random forest: {} regression trees with {leaves} leaves, shared by all settings. It sees [features](features.md) of the load \
         that carry over from device to device, pooled over the windows so far, how fast the device serves, and the active scheduler; and expects \
         the gain of each setting over `{}` in log merit, weighted {preference}: 0.01 is one percent. The error is the root of {:.4} + {:.2} \
         times the variance of the leaves' mixture.\n\n\
         *Training.* {} drawn loads, each on a drawn device of its own, were run under each setting; {} rows. All are of the training world \
         (`seekwise-lab worlds`), and nothing that an evaluation of another world draws is among them. To make it again:\n\n```sh root\n",
        if model.is_trusted() { "Those of this one did." } else { "Those of this one did not, so it is not asked: see below." },
        trees.len(),
        settings.first().map_or("", String::as_str),
        error[0],
        error[1],
        training.cases,
        training.rows
    );
    training.commands.iter().for_each(|command| text += &format!("{command}\n"));
    text += "```\n\n| kind of device | loads |\n|---|---|\n";
    training.devices.iter().for_each(|(name, cases)| text += &format!("| {name} | {cases} |\n"));
    text += "\n| program of a load | loads with it |\n|---|---|\n";
    training.programs.iter().for_each(|(name, cases)| text += &format!("| {name} | {cases} |\n"));
    text += "\n| setting | mean gain over the default, starvation apart, % |\n|---|---|\n";
    for (setting, gain) in settings.iter().zip(&training.mean_gains) {
        let _ = writeln!(text, "| `{setting}` | {:+.1} |", percent(f64::from(*gain)));
    }
    text += "\n## How far it carries\n\n\
             Settings are chosen for cases that were held out: the one with the largest expected gain, if that is above 2%. Gains are means over \
             the default, in percent; a setting that starves a stream gains nothing and loses 0.5 of log merit, which the model does not foresee: a \
             trial on the target is short, and the controller ends it when a stream waits too long. *Regret* is what is missing to the best of all \
             settings in hindsight. *Constant* is the one setting that is best if it stays everywhere, which is known in hindsight only. *Error* \
             is that of expected gains (root mean square, in hundredths of log merit), beside that of expecting each setting's mean gain. \
             *Within 90%* is the share of gains that lie within the stated 90% interval.\n\n\
             | held out | loads trained on | chosen, % | best, % | regret, % | regret of the default, % | regret of the constant, % | error | error of means | within 90%, % |\n\
             |---|---|---|---|---|---|---|---|---|---|\n";
    for TrainingScore { held_out, cases, chosen, best, constant, constant_gain, error, error_of_mean, within_90 } in
        &training.scores
    {
        let regret = |gain: f32| -percent(f64::from(gain - best));
        let _ = writeln!(
            text,
            "| {held_out} | {cases} | {:+.1} | {:+.1} | {:.1} | {:.1} | {:.1} by `{constant}` | {:.1} | {:.1} | {:.0} |",
            percent(f64::from(*chosen)),
            percent(f64::from(*best)),
            regret(*chosen),
            regret(0.0),
            regret(*constant_gain),
            100.0 * error,
            100.0 * error_of_mean,
            100.0 * within_90
        );
    }
    text
}
