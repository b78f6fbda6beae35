"""What runs in the Python worker of a task: the loop that serves Java, and the reading and writing of rows."""
