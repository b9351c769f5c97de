"""ScaledObjects of KEDA, and the authentication of their triggers."""
