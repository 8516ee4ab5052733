"""What a race consists of: contestants, their environments, studies, the order of the trials."""
