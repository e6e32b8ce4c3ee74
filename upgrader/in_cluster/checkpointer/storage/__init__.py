"""The node's disk: who may write, and writing so that no power cut interrupts a change halfway."""
