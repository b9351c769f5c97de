"""ScaledObjects of KEDA, and what their triggers sign in with."""
