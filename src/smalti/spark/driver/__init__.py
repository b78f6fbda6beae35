"""What runs on Spark's driver: answers to the questions that Java asks while Spark plans and commits."""
