"""Weixin (iLink bot API): wire, inlet, outlet, login."""
