"""Ties rows of old TVM's debug runtime to the operators of a Relay program, and to the tasks of its tuners, without that TVM."""
