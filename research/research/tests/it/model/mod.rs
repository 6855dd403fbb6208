//! Every learner, through the trait and through a file: how good it is, what it bears, and what it refuses.

mod bears;
mod file;
mod j48;
mod learns;
mod made;

use research::model::{ALL, Dataset, Evaluation, Learner, Model, ModelError, Options, train};

/// Fewer folds than a user gets: these tests run unoptimised.
fn options() -> Options {
    Options { folds: 3, tuning_rows: 300, ..Options::default() }
}

fn try_to_train(data: &Dataset, learner: &'static dyn Learner, options: &Options) -> Result<Model, ModelError> {
    train(data, learner, options, &mut |_, _| true)
}

fn trained(data: &Dataset, learner: &'static dyn Learner) -> Model {
    try_to_train(data, learner, &options()).unwrap()
}

fn accuracy(model: &Model, data: &Dataset) -> f64 {
    Evaluation::of(model, data).unwrap().accuracy
}

/// Calls back with every learner.
fn with_each(mut test: impl FnMut(&'static dyn Learner)) {
    ALL.iter().for_each(|learner| test(*learner));
}
