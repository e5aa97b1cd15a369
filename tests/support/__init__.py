"""What the Python tests stand on: processes, a model of the graph, the naive evaluator, random graphs and queries."""
