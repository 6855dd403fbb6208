//! Our C4.5 against Weka 3.8.6's J48, on files in j48/.
//!
//! The figures are those of `weka.classifiers.trees.J48 -C 0.25 -M 2 -t train.arff -T test.arff` on the same rows; files and figures were
//! written by `research/papers/self-learning/check-learners.py --learner c4.5 --splits 1 --write-fixtures FOLDER`, which compares again.

use research::model::{Columns, Dataset, Options, learner, read_csv};

use super::{accuracy, try_to_train};

/// Data set, rows of the test part that J48 has right, nodes and leaves of its tree.
const J48: [(&str, usize, usize, usize); 5] =
    [("iris", 42, 5, 3), ("wine", 51, 9, 5), ("moons", 169, 13, 7), ("blobs", 141, 53, 27), ("holes", 159, 19, 10)];

fn rows(name: &str, part: &str) -> Dataset {
    let path = format!("{}/tests/it/model/j48/{name}-{part}.csv", env!("CARGO_MANIFEST_DIR"));
    read_csv(std::fs::File::open(path).unwrap(), &Columns::default()).unwrap()
}

#[test]
fn our_trees_have_the_size_of_j48s_and_are_right_as_often() {
    for (name, right, nodes, leaves) in J48 {
        let fixed = [("confidence".to_owned(), 0.25), ("min_rows".to_owned(), 2.0)].into();
        let options = Options { fixed, ..Options::default() };
        let model = try_to_train(&rows(name, "train"), learner("c4.5").unwrap(), &options).unwrap();
        let text = model.text();
        assert!(text.contains(&format!("A tree of {nodes} nodes, {leaves} of them leaves")), "{name}:\n{text}");
        let test = rows(name, "test");
        let ours = (accuracy(&model, &test) * test.rows.len() as f64).round() as usize;
        assert!(ours.abs_diff(right) <= 1, "{name}: {ours} right, J48 {right}");
    }
}
