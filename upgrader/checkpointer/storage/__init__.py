"""The node's disk: who may write, and writing so that a power cut leaves nothing half done."""
