"""What a device was measured to reach: peak rates of compute, matrix, memory and launches, and where they are kept."""
