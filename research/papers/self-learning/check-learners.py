#!/usr/bin/env python3
"""Holds our five learners against scikit-learn, and our C4.5 against Weka's J48, on the same splits of the same rows.

    research/papers/self-learning/check-learners.py [--seekwise PROGRAM] [--splits N] [--only DATASET] [--write-fixtures FOLDER]

Each figure is the mean accuracy in percent over the splits (70% to learn from, stratified, drawn with seeds 1, 2, ...). Ours goes through
`seekwise learn train` and `seekwise learn evaluate`; both sides choose hyper-parameters by five-fold cross-validation on the training
part. Fails if ours is more than one point below (but for C4.5: scikit-learn's tree is CART, shown only), and, where Maven and Java are at hand, if our tree at J48's settings (confidence 0.25,
two rows a branch) is more than one point less accurate than J48's or differs in size by more than a tenth.

scikit-learn is installed into a virtual environment beside the build if it is not there. `--write-fixtures` writes the rows and J48's
figures that research/research/tests/it/model/j48.rs holds us to, so that the test needs neither Java nor Python.
"""

import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WEKA = "nz.ac.waikato.cms.weka:weka-stable:3.8.6"
ENVIRONMENT = ROOT / "target" / "check-learners-venv"


def with_scikit_learn():
    """Starts this script again inside an environment that has scikit-learn, if this one has not."""
    try:
        import sklearn  # noqa: F401
        return
    except ImportError:
        pass
    python = ENVIRONMENT / "bin" / "python"
    if Path(sys.prefix) == ENVIRONMENT:
        sys.exit("scikit-learn could not be installed")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    subprocess.run([python, "-m", "pip", "-q", "install", "scikit-learn==1.9.1"], check=True)
    os.execv(python, [str(python), *sys.argv])


with_scikit_learn()

import numpy as np  # noqa: E402
from sklearn import datasets  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

# The peer's perceptron says so on most splits; its accuracy is what counts.
warnings.filterwarnings("ignore", category=ConvergenceWarning)


def workload_like():
    """Five classes of rates and sizes over orders of magnitude, as windows of requests have them, with columns that say nothing."""
    random = np.random.default_rng(7)
    classes = random.integers(0, 5, 1000)
    centres = random.normal(0, 1.0, (5, 12))
    logarithms = centres[classes] + random.normal(0, 1.2, (1000, 12))
    return np.hstack([np.exp(logarithms * 1.5), random.random((1000, 6)), np.full((1000, 1), 4096.0)]), classes


def with_holes(rows, classes, share=0.1):
    rows = rows.astype(float).copy()
    rows[np.random.default_rng(3).random(rows.shape) < share] = np.nan
    return rows, classes


def data_sets():
    classification = datasets.make_classification(
        1000, n_features=40, n_informative=10, n_redundant=5, n_classes=5, n_clusters_per_class=1, flip_y=0.05, random_state=1)
    return {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "breast-cancer": datasets.load_breast_cancer(return_X_y=True),
        "digits": datasets.load_digits(return_X_y=True),
        "moons": datasets.make_moons(600, noise=0.25, random_state=1),
        "blobs": datasets.make_blobs(600, centers=5, n_features=6, cluster_std=4.5, random_state=1),
        "40-features": classification,
        "workload-like": workload_like(),
        "holes": with_holes(*datasets.load_breast_cancer(return_X_y=True)),
    }


def peers():
    scaled = lambda *last: make_pipeline(SimpleImputer(), StandardScaler(), *last)  # noqa: E731
    return {
        "c4.5": (make_pipeline(SimpleImputer(), DecisionTreeClassifier(random_state=1)),
                 {"decisiontreeclassifier__ccp_alpha": [0, 0.001, 0.005, 0.02], "decisiontreeclassifier__min_samples_leaf": [1, 2, 5]}),
        "logistic": (scaled(LogisticRegression(max_iter=2000)), {"logisticregression__C": [0.01, 0.1, 1, 10, 100]}),
        "naive-bayes": (scaled(GaussianNB()), {"gaussiannb__var_smoothing": [1e-9, 1e-4, 1e-3, 1e-2, 1e-1]}),
        "perceptron": (scaled(MLPClassifier(max_iter=400, random_state=1)),
                       {"mlpclassifier__hidden_layer_sizes": [(32,), (64,)], "mlpclassifier__alpha": [1e-4, 1e-2]}),
        "svm": (scaled(SVC()), {"svc__C": [1, 10, 100], "svc__gamma": ["scale", 0.01, 0.03, 0.1, 0.3]}),
    }


def write_csv(path, rows, classes):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f"f{number}" for number in range(rows.shape[1])] + ["class"])
        for row, label in zip(rows, classes):
            writer.writerow(["?" if math.isnan(value) else repr(float(value)) for value in row] + [f"c{label}"])


def write_arff(path, rows, classes, all_classes):
    with open(path, "w") as file:
        file.write("@relation rows\n")
        file.writelines(f"@attribute f{number} numeric\n" for number in range(rows.shape[1]))
        file.write("@attribute class {" + ",".join(f"c{label}" for label in all_classes) + "}\n@data\n")
        for row, label in zip(rows, classes):
            file.write(",".join("?" if math.isnan(value) else repr(float(value)) for value in row) + f",c{label}\n")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def ours(seekwise, folder, learner, *settings):
    model = folder / "model.json"
    words = [word for setting in settings for word in ("--set", setting)]
    run(seekwise, "learn", "train", folder / "train.csv", "--learner", learner, *words, "-o", model)
    accuracy = json.loads(run(seekwise, "learn", "evaluate", model, folder / "test.csv", "--json"))["accuracy"] * 100
    size = re.search(r"A tree of (\d+) nodes, (\d+) of them leaves", run(seekwise, "learn", "show", model))
    return accuracy, (int(size[1]), int(size[2])) if size else None


def weka_jars():
    if not (shutil.which("mvn") and shutil.which("java")):
        return None
    repository = ROOT / "target" / "check-learners-maven"
    get = ["mvn", "-q", "dependency:get", f"-Dartifact={WEKA}", f"-Dmaven.repo.local={repository}"]
    subprocess.run(get, check=True, stdout=subprocess.DEVNULL)
    return ":".join(str(path) for path in sorted(repository.rglob("*.jar")) if "maven" not in str(path.relative_to(repository)))


def j48(jars, folder):
    command = ["java", "-cp", jars, "weka.classifiers.trees.J48", "-C", "0.25", "-M", "2", "-t", folder / "train.arff", "-T", folder / "test.arff"]
    text = run(*command)
    size, leaves = int(re.search(r"Size of the tree :\s+(\d+)", text)[1]), int(re.search(r"Number of Leaves  :\s+(\d+)", text)[1])
    right = re.search(r"Error on test data ===.*?Correctly Classified Instances\s+(\d+)", text, re.S)[1]
    return int(right), (size, leaves)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seekwise", default=ROOT / "target" / "release" / "seekwise")
    parser.add_argument("--splits", type=int, help="of each data set; 3 if absent, more of small ones")
    parser.add_argument("--only")
    parser.add_argument("--learner")
    parser.add_argument("--write-fixtures", type=Path)
    arguments = parser.parse_args()
    if not Path(arguments.seekwise).exists():
        run("cargo", "build", "--release", "-p", "seekwise", "--manifest-path", ROOT / "Cargo.toml")
    jars = weka_jars()
    failures, fixtures = [], []
    print(f"{'data':14} {'learner':12} {'ours':>6} {'peer':>6} {'difference':>10}")
    for name, (rows, classes) in data_sets().items():
        if arguments.only not in (None, name):
            continue
        found = {learner: [[], []] for learner in peers() if arguments.learner in (None, learner)}
        trees = []
        # Of 50 rows one is two points: as many splits as judge by about 800.
        splits = arguments.splits or max(3, math.ceil(800 / (0.3 * len(rows))))
        for split in range(1, splits + 1):
            train, test, train_classes, test_classes = train_test_split(rows, classes, test_size=0.3, stratify=classes, random_state=split)
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                write_csv(folder / "train.csv", train, train_classes)
                write_csv(folder / "test.csv", test, test_classes)
                write_arff(folder / "train.arff", train, train_classes, sorted(set(classes)))
                write_arff(folder / "test.arff", test, test_classes, sorted(set(classes)))
                for learner, (pipeline, grid) in peers().items():
                    if learner in found:
                        found[learner][0].append(ours(arguments.seekwise, folder, learner)[0])
                        search = GridSearchCV(pipeline, grid, cv=StratifiedKFold(5, shuffle=True, random_state=1), n_jobs=1)
                        found[learner][1].append(search.fit(train, train_classes).score(test, test_classes) * 100)
                if jars and arguments.learner in (None, "c4.5"):
                    right, size = j48(jars, folder)
                    trees.append((ours(arguments.seekwise, folder, "c4.5", "confidence=0.25", "min_rows=2"), (right * 100 / len(test), size)))
                    if arguments.write_fixtures and split == 1:
                        arguments.write_fixtures.mkdir(parents=True, exist_ok=True)
                        for part in ("train", "test"):
                            shutil.copy(folder / f"{part}.csv", arguments.write_fixtures / f"{name}-{part}.csv")
                        fixtures.append((name, right, *size))
        for learner, (mine, theirs) in found.items():
            behind = report(name, learner, np.mean(mine), np.mean(theirs))
            # scikit-learn has no C4.5: its tree (CART) is another algorithm, shown beside ours; what holds ours is J48.
            failures += [] if learner == "c4.5" else behind
        if trees:
            failures += report(name, "j48", np.mean([a for (a, _), _ in trees]), np.mean([a for _, (a, _) in trees]))
            mine, theirs = (np.mean([pair[side][1][0] for pair in trees]) for side in (0, 1))
            print(f"{name:14} {'j48 nodes':12} {mine:6.1f} {theirs:6.1f} {mine - theirs:+10.1f}", flush=True)
            if abs(mine - theirs) > 0.1 * theirs:
                failures.append(f"{name}: {mine:.1f} nodes, J48 has {theirs:.1f}")
    for fixture in fixtures:
        print("J48:", fixture)
    if jars is None:
        print("J48 was not run: it needs mvn and java")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(1 if failures else 0)


def report(name, learner, mine, theirs):
    print(f"{name:14} {learner:12} {mine:6.1f} {theirs:6.1f} {mine - theirs:+10.1f}", flush=True)
    return [f"{name}: {learner} {mine:.1f}%, the peer {theirs:.1f}%"] if mine < theirs - 1.0 else []


if __name__ == "__main__":
    main()
